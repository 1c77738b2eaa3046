package testenv

import (
	"os"
	"strings"
	"testing"
	"time"
)

// UntilUnlessDead is Until for what a process is to do. It fails as soon as the process has ended, and shows its last
// lines: nobody waits for the dead.
func UntilUnlessDead(t testing.TB, what string, limit time.Duration, dead <-chan struct{}, log string, ok func() bool) {
	t.Helper()
	Until(t, what, limit, func() bool {
		t.Helper()
		select {
		case <-dead:
			t.Fatalf("it has ended before %s; its last lines:\n%s", what, endOf(log))
		default:
		}
		return ok()
	})
}

// endOf returns the end of a file.
func endOf(path string) string {
	const most = 20
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(len(lines)-most, 0):], "\n")
}
