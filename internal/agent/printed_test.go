package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/process"
)

// What programs below a process show on a terminal is seen, whoever looks at it; what others show is not.
func TestPrinted(t *testing.T) {
	_, path := terminal(t)
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	proc := t.TempDir()
	for _, p := range []process.Stat{{Pid: 10, Parent: 1}, {Pid: 11, Parent: 10}, {Pid: 12, Parent: 11, Terminal: st.Rdev}, {Pid: 20, Parent: 1}} {
		dir := filepath.Join(proc, fmt.Sprint(p.Pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		stat := fmt.Sprintf("%d (x) S %d 1 1 %d %s", p.Pid, p.Parent, p.Terminal, strings.Repeat("0 ", 20))
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	if at := printed(proc, terminalDir, 10); at.Sub(long).Abs() > time.Second {
		t.Errorf("at first: %v, not %v", at, long)
	}
	show(path, "x")
	if at := printed(proc, terminalDir, 10); time.Since(at) > time.Minute {
		t.Errorf("after something was shown: %v", at)
	}
	if at := printed(proc, terminalDir, 20); !at.IsZero() {
		t.Errorf("another's: %v", at)
	}
}
