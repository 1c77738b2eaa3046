//go:build cgo

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/units"
)

// stock is all that the driver tells. Captures of it are kept as testdata.
type stock struct {
	Taken  time.Time  `json:"taken"`
	System gpu.System `json:"system"`
	GPUs   []found    `json:"gpus"`
}

// found is one GPU; what could not be read says why.
type found struct {
	Device    gpu.Device     `json:"device"`
	Instances []gpu.Instance `json:"instances"`
	Health    gpu.Health     `json:"health"`
	Reading   *gpu.Reading   `json:"reading"`
	Problem   string         `json:"problem,omitempty"`
}

func inventory(ctx context.Context, args []string, out, errOut io.Writer) error {
	flags := flag.NewFlagSet("inventory", flag.ContinueOnError)
	flags.SetOutput(errOut)
	asJSON := flags.Bool("json", false, "print all of it, as JSON")
	if err := parse(flags, args); err != nil {
		return err
	}
	d, err := open(errOut)
	if err != nil {
		return err
	}
	s, err := take(ctx, d)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	if *asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	return s.print(out)
}

// take asks a driver for everything. A GPU that cannot be read is no reason to say nothing of the others.
func take(ctx context.Context, d gpu.Driver) (stock, error) {
	s := stock{Taken: time.Now().UTC(), GPUs: []found{}}
	var err error
	if s.System, err = d.System(ctx); err != nil {
		return s, err
	}
	devices, err := d.Devices(ctx)
	if err != nil {
		return s, err
	}
	for _, dev := range devices {
		f := found{Device: dev}
		var no [3]error
		f.Instances, no[0] = d.Instances(ctx, dev.UUID)
		f.Health, no[1] = d.Health(ctx, dev.UUID)
		reading, err := d.Read(ctx, dev.UUID)
		if no[2] = err; err == nil {
			f.Reading = &reading
		}
		if err := errors.Join(no[:]...); err != nil {
			f.Problem = err.Error()
		}
		s.GPUs = append(s.GPUs, f)
	}
	return s, nil
}

func (s stock) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "driver %s, CUDA %d.%d\n", s.System.Driver, s.System.CUDA/1000, s.System.CUDA%1000/10)
	for _, f := range s.GPUs {
		dev := f.Device
		fmt.Fprintf(
			w, "%d\t%s\t%s\t%s\t%d SMs\n", dev.Index, dev.UUID, dev.Name, units.FormatMemory(dev.Memory), dev.SMs,
		)
		for _, p := range dev.Profiles {
			fmt.Fprintf(
				w, "\t%s\tid %d\t%s\t%d SMs\tat most %d\tat %v\n", p.Name, p.ID, units.FormatMemory(p.Memory), p.SMs,
				p.Max, p.Placements,
			)
		}
		for _, in := range f.Instances {
			fmt.Fprintf(w, "\t%s\t%s\tGI %d CI %d\tat %v\n", in.Profile, in.UUID, in.GI, in.CI, in.Placement)
		}
		if f.Problem != "" {
			fmt.Fprintf(w, "\t%s\n", f.Problem)
		}
	}
	return w.Flush()
}
