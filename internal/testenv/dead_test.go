package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// failing is a test that fails by a panic.
type failing struct{ testing.TB }

func (failing) Helper() {}

func (failing) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestUntilUnlessDead(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(strings.Repeat("before\n", 100)+"address already in use\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dead := make(chan struct{})
	UntilUnlessDead(t, "it is ready", time.Hour, dead, log, func() bool { return true })
	close(dead)
	said := ""
	func() {
		defer func() { said, _ = recover().(string) }()
		UntilUnlessDead(failing{t}, "it is ready", time.Hour, dead, log, func() bool { return false })
	}()
	if !strings.Contains(said, "address already in use") || strings.Count(said, "before\n") > 20 {
		t.Errorf("it says %q", said)
	}
}
