package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// DiskHint says what ParseDisk accepts, for the remedy of an error.
const DiskHint = "a size such as 500M or 50G (decimal), 50GiB (binary), or a whole number of bytes"

// DiskWords returns a number of bytes of files, or of a disk, as people say it: "2 GB".
func DiskWords(n int64) string {
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

// ParseDisk reads a size of files, or of a disk: digits with an optional fraction, then an optional K, M, G or T, with
// B behind it or not, or with iB for powers of 1024.
func ParseDisk(s string) (int64, error) {
	number := strings.TrimSpace(s)
	unit := strings.TrimLeft(number, "0123456789.")
	number = number[:len(number)-len(unit)]
	factor, known := diskFactor(strings.ToUpper(unit))
	f, err := strconv.ParseFloat(number, 64)
	if f *= factor; !known || err != nil || f < 1 || f >= math.MaxInt64 {
		return 0, fmt.Errorf("%.40q is not %s", s, DiskHint)
	}
	return int64(f), nil
}

// diskFactor says what a unit in upper case stands for.
func diskFactor(unit string) (factor float64, known bool) {
	base := 1000.0
	if rest, binary := strings.CutSuffix(unit, "IB"); binary && rest != "" {
		base, unit = 1024, rest
	}
	unit = strings.TrimSuffix(unit, "B")
	power := strings.Index(prefixes, unit)
	switch {
	case unit == "":
		return 1, base == 1000
	case len(unit) > 1 || power < 0:
		return 0, false
	}
	return math.Pow(base, float64(power+1)), true
}
