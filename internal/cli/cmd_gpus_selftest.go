//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/programs"
)

// nothingToTest is the helper's exit code where there is no GPU.
const nothingToTest = 77

// gpusSelftest is what `slipway gpus selftest` is told.
type gpusSelftest struct {
	expect        string
	asJSON, brief bool
	timeout       time.Duration
}

// gpusSelftestCommand is `slipway gpus selftest`.
func gpusSelftestCommand(env Env) *cobra.Command {
	var s gpusSelftest
	c := &cobra.Command{
		Use: "selftest", Short: "Test the GPU of this session, or the GPUs of this node", Args: nothingElse,
		Example: "  slipway gpus selftest --brief",
		Long: "Test what this process sees of GPUs: device files, driver and libraries, the right devices and no others, the memory\n" +
			"limit, a kernel's results, copies, a second process, health. It changes nothing.\n\n" +
			"In a session it is compared with the slice that the session holds (SLIPWAY_GPU_EXPECT); on a node with nothing, unless\n" +
			"--expect says what must be found. The memory check takes all memory of the slice for a moment.\n\n" +
			"Exit codes: 0 good, 1 something failed, 77 there is nothing to test: no driver library, or a simulated slice.",
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), env) },
	}
	c.Flags().StringVar(&s.expect, "expect", "", `what must be found, as JSON: {"uuids":[...],"memory":...,"sms":...,"tier":"hardware"}`)
	c.Flags().BoolVar(&s.asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&s.brief, "brief", false, "leave out what takes long, as at the start of a session")
	c.Flags().DurationVar(&s.timeout, "timeout", time.Minute, "after which the test has failed")
	return c
}

func (s gpusSelftest) argv() []string {
	argv := []string{"selftest", "--timeout", s.timeout.String()}
	if s.expect != "" {
		argv = append(argv, "--expect", s.expect)
	}
	if s.asJSON {
		argv = append(argv, "--json")
	}
	if s.brief {
		argv = append(argv, "--brief")
	}
	return argv
}

// run runs the helper in the place of this command: its output and its exit code are the command's.
func (s gpusSelftest) run(ctx context.Context, env Env) error {
	if s.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout %s: more than 0", s.timeout)}
	}
	if slice := env.Getenv("SLIPWAY_GPU"); strings.HasSuffix(slice, "(simulated)") {
		fmt.Fprintf(env.Stdout, "%s: there is nothing to test\n", slice)
		return exitCode(nothingToTest)
	}
	own := ""
	if self, err := os.Executable(); err == nil {
		own = filepath.Dir(self)
	}
	program, err := findGPUHelper(own, control.BinDir)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, program, s.argv()...)
	c.Stdout, c.Stderr = env.Stdout, env.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it then says at which check it was
	c.WaitDelay = 5 * time.Second
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exitCode(exit.ExitCode())
	}
	if err != nil {
		return errs.New(errs.Internal, "run %s: %w", program, err).
			With("the program needs the libc that it was built with; in an image with another one, test on the node")
	}
	return nil
}

// findGPUHelper returns the helper's path: in one of these directories, or on PATH.
func findGPUHelper(dirs ...string) (string, error) {
	for _, dir := range dirs {
		p := filepath.Join(dir, programs.GPUHelper)
		if st, err := os.Stat(p); dir != "" && err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	if p, err := exec.LookPath(programs.GPUHelper); err == nil {
		return p, nil
	}
	return "", errs.New(
		errs.Missing, "the program %s, which calls NVIDIA's libraries, is not on this machine", programs.GPUHelper,
	).With("install it beside the program slipway, as the packages do; sessions have it when the service's machine has")
}
