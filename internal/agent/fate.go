package agent

import (
	"fmt"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/units"
)

// fate is how a process of a kernel's ended.
type fate struct {
	ended
	before memory // when it was started
	after  memory
}

// count counts it.
func (f fate) count(d *control.Deaths) {
	switch {
	case f.status.Signaled() && f.after.exceeded(f.before) != "":
		d.Memory++
	case f.status.Signaled():
		d.Signal++
	default:
		d.Exit++
	}
}

// words says it to who works with the kernel, after "the kernel", and what she can do.
func (f fate) words() (end, remedy string) {
	status := f.status
	switch {
	case status.Signaled() && f.after.exceeded(f.before) != "":
		return "needed more than its " + units.MemoryWords(f.after.limit) + " of memory and was killed",
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
