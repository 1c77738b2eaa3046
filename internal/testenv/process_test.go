//go:build unix

package testenv

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestProcess(t *testing.T) {
	p := Start(t, exec.Command("sh", "-c", "echo port in use; exec sleep 1000"))
	p.Until("it has said so", func() bool { text, _ := os.ReadFile(p.log); return len(text) > 0 })
	if p.Cmd.Process.Signal(syscall.Signal(0)) != nil {
		t.Error("it does not run")
	}
	p.End(syscall.SIGTERM)
	p.t = failing{t}
	said := ""
	func() {
		defer func() { said, _ = recover().(string) }()
		p.Until("it answers", func() bool { return false })
	}()
	if !strings.Contains(said, "port in use") {
		t.Errorf("it says %q", said)
	}
}
