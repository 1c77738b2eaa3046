package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
)

// TestStorageMountedLater: what is mounted for a session after its container has started appears in it, and in no
// other.
func TestStorageMountedLater(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Busybox)
	w := newWorld(t)
	t.Cleanup(func() { w.clear(t) })
	shared := t.TempDir()
	if err := unix.Mount(shared, shared, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(shared, unix.MNT_DETACH) })
	if err := unix.Mount("", shared, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	hers, his := w.launch(t, ""), w.launch(t, "")
	hers.Storage, his.Storage = filepath.Join(shared, string(hers.ID)), filepath.Join(shared, string(his.ID))
	point := filepath.Join(hers.Storage, "eos")
	for _, dir := range []string{point, filepath.Join(his.Storage, "eos")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.up(t, hers)
	w.up(t, his)
	if err := unix.Mount("late", point, "tmpfs", 0, "mode=777"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	in := func(id, command string) error {
		return exec.Command("docker", "exec", id, "/bin/busybox", "sh", "-c", command).Run()
	}
	if err := in(nameOf(hers.ID), "/bin/busybox touch /storage/eos/new"); err != nil {
		t.Errorf("what was mounted later: %v", err)
	}
	if err := in(nameOf(hers.ID), "/bin/busybox touch /storage/new"); err == nil {
		t.Error("she writes beside it")
	}
	if err := in(nameOf(his.ID), "/bin/busybox test -e /storage/eos -a ! -e /storage/eos/new"); err != nil {
		t.Errorf("another session: %v", err)
	}
	if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := in(nameOf(hers.ID), "/bin/busybox test ! -e /storage/eos/new"); err != nil {
		t.Errorf("what was unmounted: %v", err)
	}
}
