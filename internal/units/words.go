package units

import (
	"fmt"
	"strconv"
)

// shownPaths is the most paths of a list that is no table.
const shownPaths = 20

// Grouped writes a number with commas between its thousands.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return sign + s
}

// Count returns a number with the word for what is counted.
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Grouped(n) + " " + many
}

// Bounded returns the first of a list of paths, and how many more there are of all.
func Bounded(paths []string, all int) []string {
	shown := append([]string(nil), paths[:min(len(paths), shownPaths)]...)
	if n := all - len(shown); n > 0 {
		shown = append(shown, fmt.Sprintf("and %s more", Grouped(int64(n))))
	}
	return shown
}
