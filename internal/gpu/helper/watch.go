//go:build cgo

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"time"

	"slipway/internal/gpu"
)

// moment is one line of watch.
type moment struct {
	Time    float64     `json:"time"` // seconds since the epoch
	UUID    string      `json:"uuid"`
	Reading gpu.Reading `json:"reading"`
}

// watch prints readings, for comparing what the counters say with what is known to run.
func watch(ctx context.Context, args []string, out, errOut io.Writer) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	flags.SetOutput(errOut)
	seconds := flags.Float64("seconds", 10, "how long")
	every := flags.Float64("every", 0.5, "seconds between two readings")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *seconds <= 0 || *every < 0.1 {
		return usageError{
			errors.New("--seconds must be more than 0, and --every at least 0.1: the counters tell nothing about less"),
		}
	}
	d, err := open(errOut)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*seconds*float64(time.Second)))
	defer cancel()
	return errors.Join(observe(ctx, d, time.Duration(*every*float64(time.Second)), out), d.Close())
}

// observe prints readings until ctx ends, which is no error.
func observe(ctx context.Context, d gpu.Driver, every time.Duration, out io.Writer) error {
	devices, err := d.Devices(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	enc := json.NewEncoder(out)
	for {
		for _, dev := range devices {
			r, err := d.Read(ctx, dev.UUID)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if err := enc.Encode(moment{float64(time.Now().UnixMicro()) / 1e6, dev.UUID, r}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
