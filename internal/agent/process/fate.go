package process

import (
	"fmt"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/units"
)

// End is how a process ended, and what memory it had.
type End struct {
	Exit
	Before Memory // when it was started
	After  Memory
}

// Count counts it.
func (f End) Count(d *control.Deaths) {
	switch {
	case f.Status.Signaled() && f.After.Exceeded(f.Before) != "":
		d.Memory++
	case f.Status.Signaled():
		d.Signal++
	default:
		d.Exit++
	}
}

// Words says it to who works with the kernel, after "the kernel", and what she can do.
func (f End) Words() (end, remedy string) {
	status := f.Status
	switch {
	case status.Signaled() && f.After.Exceeded(f.Before) != "":
		return "needed more than its " + units.MemoryWords(f.After.limit) + " of memory and was killed",
			"Load less at a time, or choose a kernel with more memory"
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return "was killed", "If nobody did that by hand, its host has run out of memory: load less at a time"
	case status.Signaled():
		return fmt.Sprintf("crashed with signal %d (%s)", int(status.Signal()), status.Signal()),
			"Some library that it had loaded is at fault rather than your code; what it has printed is in the log of this session"
	default:
		return fmt.Sprintf("ended by itself with exit code %d", status.ExitStatus()), ""
	}
}
