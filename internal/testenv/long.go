package testenv

import (
	"os"
	"testing"
)

// longMode is the environment variable that has tests run in their long mode; `deploy/test --long` sets it.
const longMode = "SLIPWAY_TEST_LONG"

// Long skips a test in all but the long mode: one that measures, or walks so many situations that it takes minutes. No
// behaviour is tested in the long mode alone.
func Long(t testing.TB) {
	t.Helper()
	if !isLong() {
		t.Skipf("it is of the long mode: %s=1, or deploy/test --long", longMode)
	}
}

// Rounds returns how many rounds a soak runs: few in a second or two, many in the long mode.
func Rounds(few, many int) int {
	if isLong() {
		return many
	}
	return few
}

// Some returns every other one of cases of the same kind, in the long mode all.
func Some[T any](cases ...T) []T {
	if isLong() {
		return cases
	}
	var some []T
	for i := 0; i < len(cases); i += 2 {
		some = append(some, cases[i])
	}
	return some
}

func isLong() bool { return os.Getenv(longMode) != "" }
