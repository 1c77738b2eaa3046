package homes

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// TestARealOneThatIsSilent: a FUSE file system whose process is stopped answers nobody.
func TestARealOneThatIsSilent(t *testing.T) {
	testenv.Need(t, testenv.Mksquashfs, testenv.Squashfuse)
	h, dir, image := newHomes(t), t.TempDir(), t.TempDir()+"/image"
	if out, err := exec.Command("mksquashfs", t.TempDir(), image, "-quiet", "-no-progress").CombinedOutput(); err != nil {
		t.Fatalf("mksquashfs: %v %s", err, out)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	fuse := testenv.Start(t, exec.Command("squashfuse", "-f", image, dir))
	want := Want{Template: parse(t, dir), Checks: Checks{Mounted: true}}
	testenv.Until(t, "squashfuse has mounted", testenv.Hang, func() bool {
		select {
		case <-fuse.Ended:
			t.Skip("squashfuse does not mount here")
		default:
		}
		_, err := h.Find(t.Context(), want)
		return err == nil
	})
	if err := fuse.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	silent := New(Config{Program: programOf(t), Deadline: 50 * time.Millisecond})
	for range 6 { // more than may hang at once
		if _, err := silent.Find(t.Context(), Want{Template: parse(t, dir+"/{name}"), Who: alice()}); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "does not answer") {
			t.Fatal(err)
		}
	}
}
