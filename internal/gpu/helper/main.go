// Command slipway-gpu is the one program of Slipway that calls NVIDIA's libraries. The service keeps it as a child
// (drive), sessions run it to check what they were given (selftest), and administrators may ask it by hand (inventory,
// watch, load).
//
// It promises to change nothing unless the service asks for it, and to say in words what is missing on a host without a
// driver. It is linked lazily: with -z now it would not even start there. It knows nothing of sessions, leases or
// configuration.
//
// There are two builds. With cgo it is the host's: it has all commands, and needs a libc that is no older than the one
// it was built on. Without cgo it is slipway-gpu-inside: it runs with any glibc, as the images of sessions and jobs
// have them, and has all commands but those that NVML's bindings need cgo for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"slipway/internal/gpu/selftest"
)

const usage = `slipway-gpu calls NVIDIA's libraries for Slipway.

  slipway-gpu drive                    answer the service, on stdin and stdout
  slipway-gpu selftest [...]           check the GPU that this process was given: see selftest -h
  slipway-gpu inventory [--json]       print the GPUs, what they can be cut into, their health and use
  slipway-gpu watch [--seconds N] [--every N]
                                       print a reading of each GPU again and again, as lines of JSON
  slipway-gpu load [--seconds N] [--duty P] [--memory SIZE]
                                       keep the first visible GPU busy for a part P of the time, and print what was done
  slipway-gpu version [--json]         print what this program was built from

It changes no setting of a GPU, except drive when the service asks for it.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program; it gives its exit code: 0 done, 1 failed, 2 called wrongly. The self-test has codes of its own.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errOut, usage)
		return 2
	}
	commands := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"drive": drive, "inventory": inventory, "watch": watch, "load": load, "version": tellBuild, "help": help,
		"-h": help, "--help": help,
	}
	if args[0] == "selftest" {
		return selftest.Main(ctx, args[1:], out, errOut)
	}
	command := commands[args[0]]
	if command == nil {
		fmt.Fprintf(errOut, "slipway-gpu: %q is no command\n\n%s", args[0], usage)
		return 2
	}
	err := command(ctx, args[1:], out, errOut)
	_, wrong := errors.AsType[usageError](err)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	}
	fmt.Fprintf(errOut, "slipway-gpu %s: %v\n", args[0], err)
	if wrong {
		return 2
	}
	return 1
}

// usageError is a command that was called wrongly.
type usageError struct{ error }

// Unwrap gives what is wrong.
func (e usageError) Unwrap() error { return e.error }

// parse takes flags and nothing else.
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil { // it prints its options by itself
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("%q is no option", flags.Arg(0))}
	}
	return nil
}

func help(_ context.Context, _ []string, out, _ io.Writer) error {
	_, err := fmt.Fprint(out, usage)
	return err
}
