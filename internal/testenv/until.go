package testenv

import (
	"testing"
	"time"
)

// Until waits for something that a program does on its own. How often it looks depends on how long it has waited, so that it sees a
// change at most an eighth later than it could: a test that asks a Hub twenty times a second takes the processor from what it waits for.
func Until(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); {
		waited := time.Since(began)
		if waited > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-time.After(min(max(waited/8, 50*time.Millisecond), time.Second))
	}
}
