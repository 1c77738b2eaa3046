package worker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAskedTwice: what loses the first request to end, as Apptainer does while it makes its container, is asked again.
func TestAskedTwice(t *testing.T) {
	up := filepath.Join(t.TempDir(), "up")
	cmd := exec.Command("sh", "-c", `trap 'trap "exit 7" TERM' TERM; touch "$0"; while :; do sleep 0.1; done`, up)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "it is up", func() bool { _, err := os.Stat(up); return err == nil })
	ended := make(chan syscall.WaitStatus, 1)
	go func() {
		_ = cmd.Wait() // its code is not zero
		ended <- cmd.ProcessState.Sys().(syscall.WaitStatus)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := await(ctx, cmd.Process.Pid, ended, nil); code != 7 {
		t.Errorf("it ended with code %d", code)
	}
}
