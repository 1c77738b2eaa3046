package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"slipway/internal/gpu"
)

// The exit codes. A program that calls Main and crashes in NVIDIA's library ends by a signal or, as Go programs do,
// with 2.
const (
	ExitOK      = 0
	ExitFailed  = 1
	ExitUsage   = 64
	ExitNothing = 77 // there is no driver library
)

const maxExpect = 64 << 10 // bytes of an expectation

// options are the command's.
type options struct {
	cfg     Config
	json    bool
	part    string
	timeout time.Duration
}

// Main is the command `selftest` of the helper program; args are what follows its name. It gives the exit code. The
// program is to end with it at once: a check that hangs still does.
func Main(ctx context.Context, args []string, out, errOut io.Writer) int {
	o, err := parse(args, errOut)
	if errors.Is(err, flag.ErrHelp) {
		return ExitOK
	}
	if err != nil {
		fmt.Fprintf(errOut, "selftest: %v\n", err)
		return ExitUsage
	}
	if o.part != "" {
		if err := json.NewEncoder(out).Encode(playPart(o.part, o.cfg.LibraryDir)); err != nil {
			return ExitFailed
		}
		return ExitOK
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r := Run(ctx, o.cfg)
	if err := write(out, r, o.json); err != nil {
		fmt.Fprintf(errOut, "selftest: %v\n", err)
		return ExitFailed
	}
	if r.Result != OK {
		// the last line, which an agent reads
		fmt.Fprintf(errOut, "%s: %s\n", r.Result, strings.ReplaceAll(r.Fault, "\n", "; "))
	}
	return r.exitCode()
}

func (r Report) exitCode() int {
	switch r.Result {
	case OK:
		return ExitOK
	case Nothing:
		return ExitNothing
	default:
		return ExitFailed
	}
}

func parse(args []string, errOut io.Writer) (options, error) {
	var o options
	var expect string
	f := flag.NewFlagSet("selftest", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.Usage = func() {
		fmt.Fprintln(errOut, "Test the GPUs that this process sees. Exit codes: 0 good, 1 something failed, 64 wrong usage, 77 no driver library.")
		f.PrintDefaults()
	}
	f.StringVar(
		&expect, "expect", "",
		"what must be found, as JSON (empty: $SLIPWAY_GPU_EXPECT, and without that nothing is compared)",
	)
	f.BoolVar(&o.json, "json", false, "print the report as one line of JSON")
	f.BoolVar(&o.cfg.Brief, "brief", false, "leave out what takes long, as at the start of a session")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "after which the test has failed")
	f.StringVar(&o.cfg.LibraryDir, "library-dir", "", "take NVIDIA's libraries from this directory")
	f.StringVar(&o.cfg.Root, "root", "", "look for /dev, /proc and the CUDA runtime below this directory")
	f.StringVar(&o.part, "part", "", "be another process of the test: compute or list")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is too much", f.Arg(0))
	case o.part != "" && o.part != partCompute && o.part != partList:
		return o, fmt.Errorf("--part %q: it is compute or list", o.part)
	case o.timeout <= 0:
		return o, fmt.Errorf("--timeout %s: it is more than 0", o.timeout)
	}
	if expect == "" {
		expect = os.Getenv(ExpectEnv)
	}
	if expect != "" {
		e, err := ParseExpectation(expect)
		if err != nil {
			return o, err
		}
		o.cfg.Expect = &e
	}
	o.cfg.Environ = os.Environ()
	if self, err := os.Executable(); err == nil {
		o.cfg.Self = []string{self, "selftest"}
	}
	return o, nil
}

// ExpectEnv names the variable of a session that holds its slice's expectation as JSON. It is public.
const ExpectEnv = "SLIPWAY_GPU_EXPECT"

// ParseExpectation reads a gpu.Expectation.
func ParseExpectation(text string) (gpu.Expectation, error) {
	var e gpu.Expectation
	if len(text) > maxExpect {
		return e, fmt.Errorf("the expectation has %d bytes, more than %d", len(text), maxExpect)
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return e, fmt.Errorf(
			"the expectation is no JSON of the form {\"uuids\":[...],\"memory\":...,\"sms\":...,\"tier\":...}: %w", err,
		)
	}
	if len(e.UUIDs) == 0 {
		return e, errors.New("the expectation names no device: its field uuids is empty")
	}
	return e, nil
}

func write(w io.Writer, r Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESULT\tCHECK\tFINDING")
	for _, c := range r.Checks {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Result, c.Name, strings.ReplaceAll(c.Detail, "\n", "; "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range r.Checks {
		if c.Remedy != "" {
			fmt.Fprintf(w, "\n%s: %s\n", c.Name, c.Remedy)
		}
	}
	_, err := fmt.Fprintf(w, "\n%d checks in %.1f s\n", len(r.Checks), r.Seconds)
	return err
}
