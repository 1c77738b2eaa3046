package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"runtime/debug"

	"slipway/internal/version"
)

// build says what this program was built from. The service's doctor compares it with the service.
type build struct {
	version.Build
	Bindings string `json:"bindings,omitempty"` // of NVML, whose structures must fit the driver's
	Inside   bool   `json:"inside"`             // it is the build for sessions and jobs
}

func thisBuild() build {
	b := build{Build: version.This(), Inside: inside}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/NVIDIA/go-nvml" {
			b.Bindings = m.Version
		}
	}
	return b
}

// tellBuild tells what this program was built from.
func tellBuild(_ context.Context, args []string, out, errOut io.Writer) error {
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	flags.SetOutput(errOut)
	asJSON := flags.Bool("json", false, "print JSON")
	if err := parse(flags, args); err != nil {
		return err
	}
	b := thisBuild()
	if *asJSON {
		return json.NewEncoder(out).Encode(b)
	}
	what := "go-nvml " + b.Bindings
	if inside {
		what = "for sessions and jobs"
	}
	_, err := fmt.Fprintf(out, "slipway-gpu %s, %s\n", b.Version, what)
	return err
}
