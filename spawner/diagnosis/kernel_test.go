package diagnosis

import (
	"strings"
	"testing"

	"slipway/spawner"
)

func TestKernelThatNeverAnswered(t *testing.T) {
	const ended = "the kernel ended before it answered"
	for _, c := range []struct {
		name   string
		is     spawner.Outcome
		reason string
		remedy string
	}{
		{"python without ipykernel", spawner.Outcome{ExitCode: 1, Reason: ended, Tail: "/opt/env/bin/python3: No module named ipykernel_launcher\n"}, "its environment has no ipykernel", "pip install ipykernel"},
		{"an import of it", spawner.Outcome{ExitCode: 1, Reason: ended, Tail: "Traceback (most recent call last):\n  File \"k.py\", line 1, in <module>\n    import ipykernel\nModuleNotFoundError: No module named 'ipykernel'\n"}, "its environment has no ipykernel", "pip install ipykernel"},
		{"another module", spawner.Outcome{ExitCode: 1, Reason: ended, Tail: "begun\nModuleNotFoundError: No module named 'zmq'\n"}, ended + "; it said last: ModuleNotFoundError: No module named 'zmq'", noOther},
		{"a long line", spawner.Outcome{ExitCode: 1, Reason: ended, Tail: strings.Repeat("é", 500)}, ended + "; it said last: " + strings.Repeat("é", 150), noOther},
		{"nothing said", spawner.Outcome{ExitCode: 1, Reason: ended}, ended, noOther},
		{"no program", spawner.Outcome{ExitCode: 127, Reason: "there is no program ir"}, "there is no program ir", "must be in its image"},
		{"out of memory", spawner.Outcome{ExitCode: 137, Reason: "out of memory", Remedy: "ask for more: --mem"}, "out of memory", "choose a kernel with more memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := OfKernel(c.is, false); !strings.HasPrefix(got.Reason, c.reason) || len(got.Reason) > len(c.reason)+50 || !strings.Contains(got.Remedy, c.remedy) {
				t.Errorf("%q, %q", got.Reason, got.Remedy)
			}
		})
	}
}
