package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestDiskUse(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "a", "big")
	if err := os.Mkdir(filepath.Dir(big), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	hole, err := os.Create(filepath.Join(dir, "hole"))
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	for _, err := range []error{hole.Truncate(1 << 40), os.Link(big, filepath.Join(dir, "again")), os.Symlink("/", filepath.Join(dir, "out"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := diskUse(t.Context(), dir); err != nil || got < 4<<20 || got > 5<<20 {
		t.Errorf("%d bytes, %v: want 4 MiB, once, without the hole and what lies behind a link", got, err)
	}
}

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
