package htcondor

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"slipway/spawner/batch"
)

// submittedForm is a line of condor_submit -terse: the first and the last job of a cluster.
var submittedForm = regexp.MustCompile(`^([0-9]{1,9})\.([0-9]{1,9}) - ([0-9]{1,9})\.([0-9]{1,9})$`)

// parseSubmitted reads what condor_submit -terse prints for n jobs, and returns their names in the order of the
// description.
func parseSubmitted(out string, n int) ([]string, error) {
	var names []string
	for text := range strings.Lines(out) {
		m := submittedForm.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			continue
		}
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[4])
		if m[1] != m[3] || last-first >= n {
			return nil, fmt.Errorf("condor_submit printed %q for %d jobs", batch.OneLine(out, batch.MaxReason), n)
		}
		for proc := first; proc <= last; proc++ {
			names = append(names, m[1]+"."+strconv.Itoa(proc))
		}
	}
	if len(names) != n {
		return nil, fmt.Errorf("condor_submit printed %q for %d jobs", batch.OneLine(out, batch.MaxReason), n)
	}
	return names, nil
}
