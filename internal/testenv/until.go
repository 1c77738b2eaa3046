package testenv

import (
	"testing"
	"time"
)

// Hang is how long a test waits for what programs and servers do on their own. A machine that has much else to do does
// not need so long, so who reaches it hangs.
const Hang = 4 * time.Minute

// Until waits for something that a program does on its own.
func Until(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	if !Within(limit, ok) {
		t.Fatalf("not within %s: %s", limit, what)
	}
}

// Within looks until ok, for as long as limit, and reports whether it was. How often it looks depends on how long it
// has waited, so that it sees a change at most an eighth later than it could: a test that asks a Hub twenty times a
// second takes the processor from what it waits for.
func Within(limit time.Duration, ok func() bool) bool {
	for began := time.Now(); !ok(); {
		waited := time.Since(began)
		if waited > limit {
			return false
		}
		<-time.After(min(max(waited/8, 5*time.Millisecond), time.Second))
	}
	return true
}

// Receive returns what comes through a channel, or the zero value once it is closed. It fails the test when nothing
// does: who waits there for ever says nothing.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Hang):
		t.Fatalf("not within %s: %s", Hang, what)
		panic("unreachable")
	}
}
