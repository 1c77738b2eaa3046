// Package disksize reads and writes sizes of files, and of room on disks, as people say them: 2 GB is 2,000,000,000 bytes. Memory, which
// comes in powers of two, is package memsize's.
//
// Every face of Slipway writes such a size by Words, so that the same one is the same text everywhere. Parse never rounds to zero and
// never overflows.
package disksize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Hint says what Parse accepts, for the remedy of an error.
const Hint = "a size such as 500M or 50G (decimal), 50GiB (binary), or a whole number of bytes"

// Words returns a number of bytes as people say it.
func Words(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	x, at := float64(n), 0
	for x >= 999.5 && at < len(units)-1 {
		x, at = x/1000, at+1
	}
	if at > 0 && x < 9.95 || at >= 3 && x < 99.95 { // a gigabyte is much
		return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") + " " + units[at]
	}
	return fmt.Sprintf("%.0f %s", x, units[at])
}

// Parse reads a size: digits with an optional fraction, then an optional K, M, G or T, with B behind it or not, or with iB for powers
// of 1024.
func Parse(s string) (int64, error) {
	number := strings.TrimSpace(s)
	unit := strings.TrimLeft(number, "0123456789.")
	number = number[:len(number)-len(unit)]
	factor, known := factorOf(strings.ToUpper(unit))
	f, err := strconv.ParseFloat(number, 64)
	if f *= factor; !known || err != nil || f < 1 || f >= math.MaxInt64 {
		return 0, fmt.Errorf("%.40q is not %s", s, Hint)
	}
	return int64(f), nil
}

// factorOf says what a unit in upper case stands for.
func factorOf(unit string) (factor float64, known bool) {
	base := 1000.0
	if rest, binary := strings.CutSuffix(unit, "IB"); binary && rest != "" {
		base, unit = 1024, rest
	}
	unit = strings.TrimSuffix(unit, "B")
	power := strings.Index("KMGT", unit)
	switch {
	case unit == "":
		return 1, base == 1000
	case len(unit) > 1 || power < 0:
		return 0, false
	}
	return math.Pow(base, float64(power+1)), true
}
