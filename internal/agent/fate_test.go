package agent

import (
	"strings"
	"syscall"
	"testing"

	"slipway/internal/agent/control"
)

func TestFate(t *testing.T) {
	limit := memory{limit: 4 << 30, kills: 1}
	for want, f := range map[string]fate{
		"needed more than its 4 GiB of memory and was killed": {ended: ended{status: syscall.WaitStatus(syscall.SIGKILL)}, before: memory{limit: 4 << 30}, after: limit},
		"was killed":             {ended: ended{status: syscall.WaitStatus(syscall.SIGKILL)}, before: limit, after: limit},
		"crashed with signal 11": {ended: ended{status: syscall.WaitStatus(syscall.SIGSEGV)}},
		"with exit code 3":       {ended: ended{status: 3 << 8}},
	} {
		if end, _ := f.words(); !strings.Contains(end, want) {
			t.Errorf("%q is to have %q", end, want)
		}
	}
	var deaths control.Deaths
	for _, f := range []fate{
		{ended: ended{status: syscall.WaitStatus(syscall.SIGKILL)}, after: limit}, {ended: ended{status: syscall.WaitStatus(syscall.SIGKILL)}},
		{ended: ended{status: syscall.WaitStatus(syscall.SIGSEGV)}}, {ended: ended{status: 3 << 8}},
	} {
		f.count(&deaths)
	}
	if deaths != (control.Deaths{Memory: 1, Signal: 2, Exit: 1}) {
		t.Errorf("%+v", deaths)
	}
	killed := fate{ended: ended{status: syscall.WaitStatus(syscall.SIGKILL)}, before: memory{limit: 4 << 30}, after: limit}
	if _, remedy := killed.words(); !strings.Contains(remedy, "a kernel with more memory") {
		t.Errorf("%q", remedy)
	}
}
