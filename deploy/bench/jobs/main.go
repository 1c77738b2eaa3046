// Program jobs measures jobs of the backend `local` beside `apptainer exec` by hand of the same image, as an ordinary
// user, with the same options, in turns: how long one job takes to its payload's first line, and how many empty points
// of a scan end in a second. Then it submits a scan as large as one may be, and looks at the service's memory while it
// runs. Where a Python with submitit and dask is named, the same scan goes through their own executors too. It prints
// Markdown tables.
//
// The service is a real one, with Docker for the session whose environment is frozen; only the Hub is played. What it
// must not do: leave anything of it behind, or measure one side with another image or other options than the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"slipway/deploy/bench/figures"
)

// options are the command line.
type options struct {
	slipway, apptainer, image, python string
	parts                             string
	rounds, starts, points, many      int
	atOnce                            int
	verbose                           bool
}

func main() {
	o := options{}
	flag.StringVar(&o.slipway, "slipway", "", "the program, built with CGO_ENABLED=0. Required")
	flag.StringVar(&o.apptainer, "apptainer", "apptainer", "the program")
	flag.StringVar(&o.image, "image", "slipway/notebook:1", "of the session whose environment the jobs run in")
	flag.StringVar(
		&o.python, "python", "", "one with the packages of requirements.txt, to compare with; empty: no comparison",
	)
	flag.IntVar(&o.rounds, "rounds", 5, "how often a scan is run")
	flag.IntVar(&o.starts, "starts", 15, "single jobs")
	flag.IntVar(&o.points, "points", 200, "of one scan")
	flag.IntVar(&o.many, "many", 10_000, "points of the large scan")
	flag.IntVar(&o.atOnce, "at-once", 2, "jobs at once, on either side")
	flag.StringVar(&o.parts, "parts", "overhead,rate,compare,many", "what is measured")
	flag.BoolVar(&o.verbose, "verbose", false, "show every single value")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "jobs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	fmt.Println(figures.Machine("jobs"))
	s, err := newSite(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := s.close(err != nil); err == nil {
			err = cerr
		}
	}()
	for name := range strings.SplitSeq(o.parts, ",") {
		part, ok := map[string]func(context.Context, *site, options) error{
			"overhead": overhead, "rate": rate, "compare": compare, "many": many,
		}[name]
		if !ok {
			return fmt.Errorf("no part %q", name)
		}
		if err := part(ctx, s, o); err != nil {
			return err
		}
	}
	return nil
}
