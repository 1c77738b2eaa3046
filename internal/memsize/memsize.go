// Package memsize reads and writes sizes of memory as people give them to Docker: "2G" is 2 GiB. All units are binary.
//
// Format and Parse are each other's inverse; Parse never rounds to zero and never overflows.
package memsize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Hint says what Parse accepts, for the remedy of an error.
const Hint = "a size such as 512M or 2G, or a whole number of bytes"

const units = "KMGT"

// Parse reads a size: digits with an optional fraction, then an optional K, M, G or T, then an optional B or iB. A number
// without a unit is of bytes.
func Parse(s string) (int64, error) {
	number, factor := split(s)
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("%.40q is not %s", s, Hint)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not %s", s, Hint)
	}
	return FromFloat(f * factor)
}

// FromFloat makes a whole, positive number of bytes of f.
func FromFloat(f float64) (int64, error) {
	if math.IsNaN(f) || f < 1 || f >= math.MaxInt64 {
		return 0, fmt.Errorf("%g bytes are not %s", f, Hint)
	}
	return int64(f), nil
}

// split cuts a size into its number and what its unit stands for.
func split(s string) (number string, factor float64) {
	number = strings.TrimSpace(s)
	unit := strings.TrimLeft(number, "0123456789.")
	number = number[:len(number)-len(unit)]
	unit = strings.ToUpper(unit)
	if unit == "" || unit == "B" {
		return number, 1
	}
	power := strings.Index(units, unit[:1])
	if rest := unit[1:]; power < 0 || rest != "" && rest != "B" && rest != "IB" {
		return "", 0
	}
	return number, math.Pow(1024, float64(power+1))
}

// Format writes n bytes with the largest unit that leaves a whole number: 2 GiB is "2G", 1.5 GiB is "1536M".
func Format(n int64) string {
	unit := -1
	for n != 0 && n%1024 == 0 && unit < len(units)-1 {
		n, unit = n/1024, unit+1
	}
	if unit < 0 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + units[unit:unit+1]
}
