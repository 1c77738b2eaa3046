package docker

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// buildWaker returns the program that wakes.
func buildWaker(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "slipway-job")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, "slipway/internal/runner").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// TestWakes: what is beside a service wakes its session when the service's end of the pipe goes, is started anew when
// it is killed, and is gone when the session goes on.
func TestWakes(t *testing.T) {
	w := newWorld(t)
	w.cfg.Self = buildWaker(t)
	l := w.launch(t, "")
	w.up(t, l)
	h := &holding{b: w.Backend, id: l.ID, limit: time.Hour}
	paused := func() bool {
		c, _, err := w.find(t.Context(), l.ID)
		return err == nil && c.State.Paused
	}
	if err := h.pause(t.Context()); err != nil || !paused() {
		t.Fatalf("paused %v: %v", paused(), err)
	}
	first := h.waker.process()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "another is started", func() bool { p := h.waker.process(); return p != 0 && p != first })
	if !paused() {
		t.Error("it goes on with the death of what would wake it")
	}
	second := h.waker.process()
	if err := h.resume(t.Context()); err != nil || paused() {
		t.Errorf("Resume = %v, paused %v", err, paused())
	}
	if err := syscall.Kill(second, 0); err != syscall.ESRCH {
		t.Errorf("process %d is left: %v", second, err)
	}

	if err := h.pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	h.waker.mu.Lock()
	_ = h.waker.held.Close() // as the kernel does when the service is killed
	h.waker.mu.Unlock()
	until(t, "it goes on", func() bool { return !paused() })
	t.Logf("it was held still for %v more", time.Since(began))
	h.watch.Stop()
	h.waker.stop()
}
