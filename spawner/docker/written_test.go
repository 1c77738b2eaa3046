package docker

import (
	"os/exec"
	"testing"
)

// TestWritten: what a session writes into its own tree is counted, and what it has from its image is not.
func TestWritten(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	before, err := w.Written(t.Context(), l.ID)
	if err != nil || before > 1<<20 {
		t.Fatalf("Written = %d, %v", before, err)
	}
	if out, err := exec.Command("docker", "exec", nameOf(l.ID), "/bin/busybox", "dd", "if=/dev/zero", "of=/var/tmp/x", "bs=1M", "count=8").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if after, err := w.Written(t.Context(), l.ID); err != nil || after-before < 8<<20 || after-before > 9<<20 {
		t.Errorf("Written = %d after %d, %v", after, before, err)
	}
}
