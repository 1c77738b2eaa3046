package nvml

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// minors tells the minor numbers of /dev/nvidia-caps/nvidia-cap<n> by what they open: "gpu0/gi1/access" or
// "gpu0/gi1/ci0/access".
type minors map[string]int

// parseMinors reads /proc/driver/nvidia-caps/mig-minors: a line for each capability, its name and its number.
func parseMinors(r io.Reader) (minors, error) {
	m := minors{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("the capability %q is no name and number", lines.Text())
		}
		minor, err := strconv.Atoi(words[1])
		if err != nil || minor < 0 {
			return nil, fmt.Errorf("the capability %s has the number %q", words[0], words[1])
		}
		m[words[0]] = minor
	}
	return m, lines.Err()
}

// of returns the numbers for a GPU instance and, unless ci is negative, its compute instance; nothing when one of them
// is unknown.
func (m minors) of(gpu, gi, ci int) []int {
	names := []string{fmt.Sprintf("gpu%d/gi%d/access", gpu, gi)}
	if ci >= 0 {
		names = append(names, fmt.Sprintf("gpu%d/gi%d/ci%d/access", gpu, gi, ci))
	}
	var found []int
	for _, name := range names {
		minor, ok := m[name]
		if !ok {
			return nil
		}
		found = append(found, minor)
	}
	return found
}
