package command

import (
	"os/exec"
	"testing"
)

// TestPrintsTooMuch: a command that prints without end is ended, and its output is none.
func TestPrintsTooMuch(t *testing.T) {
	out := bounded{most: 100 << 10}
	cmd := exec.CommandContext(t.Context(), "yes")
	cmd.Stdout = &out
	if err := cmd.Run(); err == nil || !out.over || out.Len() > out.most {
		t.Errorf("%v after %d bytes", err, out.Len())
	}
	out = bounded{most: 5}
	cmd = exec.CommandContext(t.Context(), "printf", "12345")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil || out.over || out.String() != "12345" {
		t.Errorf("%v, %q", err, out.String())
	}
}
