package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"

	"slipway/internal/gpu/cuda"
	"slipway/internal/units"
)

// load makes work for a GPU.
func load(ctx context.Context, args []string, out, errOut io.Writer) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(errOut)
	seconds := flags.Float64("seconds", 10, "how long")
	duty := flags.Float64("duty", 1, "part of the time with work, 0 to 1")
	var memory int64
	flags.Func("memory", "how much to hold, such as 2G", func(size string) (err error) {
		memory, err = units.ParseMemory(size)
		return err
	})
	if err := parse(flags, args); err != nil {
		return err
	}
	report, err := cuda.Load(ctx, *seconds, *duty, memory)
	return errors.Join(json.NewEncoder(out).Encode(report), err)
}
