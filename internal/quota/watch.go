package quota

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slipway/internal/clock"
)

// Pauses of Watch: the shortest, and how many times as long as a measurement took, so that measuring takes 2 % of a
// processor at most.
const (
	leastPause = 5 * time.Second
	perMeasure = 50
)

// Watch measures directories until ctx ends, and calls over with what they hold together when that is more than limit,
// each time that it is so. It looks again after at least 5 seconds, and the later the longer a look takes. Files that
// were deleted while they are open, and what is written and deleted between two looks, it does not see. It returns nil
// when ctx ends.
func Watch(ctx context.Context, limit int64, over func(used int64), dirs ...string) error {
	for {
		begun := time.Now()
		used, err := Measure(ctx, dirs...)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case used > limit:
			over(used)
		}
		if !clock.Sleep(ctx, max(leastPause, perMeasure*time.Since(begun))) {
			return nil
		}
	}
}

// Measure returns how much directories hold together, what is linked several times counted once, other file systems
// below them left out. It runs du with the lowest priority: that follows no link, and no depth or number of files makes
// it large.
func Measure(ctx context.Context, dirs ...string) (int64, error) {
	argv := []string{"-n", "19", "du", "--summarize", "--one-file-system", "--block-size=1", "--null", "--"}
	argv = append(argv, dirs...)
	cmd := exec.CommandContext(ctx, "nice", argv...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	exit, failed := errors.AsType[*exec.ExitError](err)
	gone := failed && exit.ExitCode() == 1   // a file went away meanwhile
	reaped := errors.Is(err, syscall.ECHILD) // by the caller, who collects whatever ends
	if err != nil && !gone && !reaped {
		return 0, fmt.Errorf("measure %s: %w: %s", strings.Join(dirs, ", "), err, strings.TrimSpace(said.String()))
	}
	return total(out)
}

// total adds up what du printed.
func total(out []byte) (sum int64, err error) {
	for line := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if len(line) == 0 {
			continue
		}
		size, _, _ := bytes.Cut(line, []byte("\t"))
		n, err := strconv.ParseInt(string(size), 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("du printed %q", line)
		}
		sum += n
	}
	return sum, nil
}
