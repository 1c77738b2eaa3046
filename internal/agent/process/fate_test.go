package process

import (
	"strings"
	"syscall"
	"testing"

	"slipway/internal/agent/control"
)

func TestFate(t *testing.T) {
	limit := Memory{limit: 4 << 30, kills: 1}
	for want, f := range map[string]End{
		"needed more than its 4 GiB of memory and was killed": {Exit: Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}, Before: Memory{limit: 4 << 30}, After: limit},
		"was killed":             {Exit: Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}, Before: limit, After: limit},
		"crashed with signal 11": {Exit: Exit{Status: syscall.WaitStatus(syscall.SIGSEGV)}},
		"with exit code 3":       {Exit: Exit{Status: 3 << 8}},
	} {
		if end, _ := f.Words(); !strings.Contains(end, want) {
			t.Errorf("%q is to have %q", end, want)
		}
	}
	var deaths control.Deaths
	for _, f := range []End{
		{Exit: Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}, After: limit}, {Exit: Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}},
		{Exit: Exit{Status: syscall.WaitStatus(syscall.SIGSEGV)}}, {Exit: Exit{Status: 3 << 8}},
	} {
		f.Count(&deaths)
	}
	if deaths != (control.Deaths{Memory: 1, Signal: 2, Exit: 1}) {
		t.Errorf("%+v", deaths)
	}
	killed := End{Exit: Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}, Before: Memory{limit: 4 << 30}, After: limit}
	if _, remedy := killed.Words(); !strings.Contains(remedy, "a kernel with more memory") {
		t.Errorf("%q", remedy)
	}
}
