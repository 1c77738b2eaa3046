// Package units reads and writes sizes in bytes as people say them: of memory, and of files and disks. Every face of
// Slipway writes them by this package, so that the same size is the same text everywhere; so it is with counts.
//
// The two parsers differ on purpose. Memory comes in powers of two, and JupyterHub, Slurm and Docker read "2G" as 2
// GiB, so ParseMemory does. Disks are sold, and quotas told, in powers of ten: ParseDisk reads "2G" as 2 GB,
// 2,000,000,000 bytes, and "2GiB" as 2 GiB. Neither rounds to zero or overflows. The package must not know what a size
// is of.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MemoryHint says what ParseMemory accepts, for the remedy of an error.
const MemoryHint = "a size such as 512M or 2G, or a whole number of bytes"

// prefixes are the letters of the units, of which each stands for the next power.
const prefixes = "KMGT"

// ParseMemory reads a size of memory, also as MemoryWords and FormatMemory write it: digits with an optional fraction,
// then an optional K, M, G or T, then an optional B or iB, with blanks before the unit or not. A number without a unit
// is of bytes.
func ParseMemory(s string) (int64, error) {
	number, factor := splitMemory(s)
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("%.40q is not %s", s, MemoryHint)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not %s", s, MemoryHint)
	}
	return MemoryFromFloat(f * factor)
}

// MemoryFromFloat makes a whole, positive number of bytes of f.
func MemoryFromFloat(f float64) (int64, error) {
	if math.IsNaN(f) || f < 1 || f >= math.MaxInt64 {
		return 0, fmt.Errorf("%g bytes are not %s", f, MemoryHint)
	}
	return int64(f), nil
}

// splitMemory cuts a size into its number and what its unit stands for.
func splitMemory(s string) (number string, factor float64) {
	number = strings.TrimSpace(s)
	unit := strings.TrimLeft(number, "0123456789.")
	number = number[:len(number)-len(unit)]
	unit = strings.ToUpper(strings.TrimSpace(unit))
	if unit == "" || unit == "B" {
		return number, 1
	}
	power := strings.Index(prefixes, unit[:1])
	if rest := unit[1:]; power < 0 || rest != "" && rest != "B" && rest != "IB" {
		return "", 0
	}
	return number, math.Pow(1024, float64(power+1))
}

// MemoryWords returns n bytes as people read them: "2 GiB", "512 MiB", "1.5 GiB".
func MemoryWords(n int64) string {
	names := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1023.95 && u < len(names)-1 { // what would be written as 1024
		f, u = f/1024, u+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + " " + names[u]
}

// MemoryText returns a size that ParseMemory reads as MemoryWords writes it; what it does not read stays.
func MemoryText(size string) string {
	n, err := ParseMemory(size)
	if err != nil {
		return size
	}
	return MemoryWords(n)
}

// FormatMemory writes n bytes for programs, so that ParseMemory returns n: with the largest unit that leaves a whole
// number: 2 GiB is "2G", 1.5 GiB is "1536M".
func FormatMemory(n int64) string {
	unit := -1
	for n != 0 && n%1024 == 0 && unit < len(prefixes)-1 {
		n, unit = n/1024, unit+1
	}
	if unit < 0 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + prefixes[unit:unit+1]
}
