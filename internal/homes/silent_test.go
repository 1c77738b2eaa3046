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
	h, dir, image := newHomes(t), t.TempDir(), t.TempDir()+"/image"
	if out, err := exec.Command("mksquashfs", t.TempDir(), image, "-quiet", "-no-progress").CombinedOutput(); err != nil {
		t.Skipf("mksquashfs: %v %s", err, out)
	}
	fuse := exec.Command("squashfuse", "-f", image, dir)
	if err := fuse.Start(); err != nil {
		t.Skip("squashfuse is not installed: ", err)
	}
	ended := make(chan struct{})
	go func() { _ = fuse.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = fuse.Process.Signal(syscall.SIGCONT)
		_ = fuse.Process.Kill()
		<-ended
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	})
	want := Want{Template: parse(t, dir), Mounted: true}
	testenv.Until(t, "squashfuse has mounted", testenv.Hang, func() bool {
		select {
		case <-ended:
			t.Skip("squashfuse does not mount here")
		default:
		}
		_, err := h.Find(t.Context(), want)
		return err == nil
	})
	if err := fuse.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	silent := New(Config{Program: programOf(t), Deadline: 500 * time.Millisecond})
	for range 6 { // more than may hang at once
		if _, err := silent.Find(t.Context(), Want{Template: parse(t, dir+"/{name}"), Who: alice()}); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "does not answer") {
			t.Fatal(err)
		}
	}
}
