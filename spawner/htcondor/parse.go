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

// parseSubmitted reads what condor_submit -terse prints for n jobs, and returns them in the order of the
// description, as they are right after they were submitted.
func parseSubmitted(out string, n int) ([]batch.Job, error) {
	var jobs []batch.Job
	for text := range strings.Lines(out) {
		m := submittedForm.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			continue
		}
		cluster, _ := strconv.Atoi(m[1])
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(m[4])
		if m[1] != m[3] || last-first >= n {
			return nil, fmt.Errorf("condor_submit printed %q for %d jobs", batch.OneLine(out, batch.MaxReason), n)
		}
		for proc := first; proc <= last; proc++ {
			jobs = append(jobs, job{Cluster: integer(cluster), Proc: integer(proc), Status: idle}.seen())
		}
	}
	if len(jobs) != n {
		return nil, fmt.Errorf("condor_submit printed %q for %d jobs", batch.OneLine(out, batch.MaxReason), n)
	}
	return jobs, nil
}
