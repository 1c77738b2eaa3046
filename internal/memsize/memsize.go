// Package memsize reads and writes sizes of memory as people give them to Docker: "2G" is 2 GiB. All units are binary.
//
// Words is how each face of Slipway tells people a size of memory, so that the same one is the same text everywhere. Format writes it
// for programs: Format and Parse are each other's inverse. Parse never rounds to zero, never overflows, and reads what Words writes.
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

// Parse reads a size: digits with an optional fraction, then an optional K, M, G or T, then an optional B or iB, with blanks before the
// unit or not. A number without a unit is of bytes.
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
	unit = strings.ToUpper(strings.TrimSpace(unit))
	if unit == "" || unit == "B" {
		return number, 1
	}
	power := strings.Index(units, unit[:1])
	if rest := unit[1:]; power < 0 || rest != "" && rest != "B" && rest != "IB" {
		return "", 0
	}
	return number, math.Pow(1024, float64(power+1))
}

// Words returns n bytes as people read them: "2 GiB", "512 MiB", "1.5 GiB".
func Words(n int64) string {
	names := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1023.95 && u < len(names)-1 { // what would be written as 1024
		f, u = f/1024, u+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + " " + names[u]
}

// Said returns a size as Words does that is written as Format writes it, or in any way that Parse reads; what it does not read stays.
func Said(size string) string {
	n, err := Parse(size)
	if err != nil {
		return size
	}
	return Words(n)
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
