package render

import (
	"fmt"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/units"
)

// namedFiles is how many of a job's files are named where its end is told.
const namedFiles = 5

// JobEnd returns, in one line, how a job has ended: its state, its tries, how long the last one ran, and the files that
// came back.
func JobEnd(j hubapi.Job, files []hubapi.File) string {
	words := []string{string(j.State)}
	if o := j.Outcome; o != nil {
		if o.Failed {
			words = append(words, fmt.Sprintf("exit code %d", o.ExitCode))
		}
		if j.Attempt > 1 {
			words = append(words, units.Count(int64(j.Attempt), "try", "tries"))
		}
		if o.Wall > 0 {
			words = append(words, "ran "+ranWords(time.Duration(o.Wall*float64(time.Second))))
		}
	}
	return fmt.Sprintf("job %s has ended: %s; %s", j.ID, strings.Join(words, ", "), filesWords(files))
}

// filesWords name files with their sizes.
func filesWords(files []hubapi.File) string {
	if len(files) == 0 {
		return "no files came back"
	}
	var words []string
	for _, f := range files[:min(len(files), namedFiles)] {
		words = append(words, fmt.Sprintf("%s (%s)", f.Name, units.DiskWords(f.Size)))
	}
	if more := len(files) - len(words); more > 0 {
		words = append(words, fmt.Sprintf(
			"and %s more (%s in all)", units.Grouped(int64(more)), units.DiskWords(hubapi.LeftOf(files).Bytes),
		))
	}
	return "back came " + strings.Join(words, ", ")
}

// ranWords write a time that was measured.
func ranWords(d time.Duration) string {
	if d < 100*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// NextSteps returns what can be done with what a job or scan has come to.
func NextSteps(id string) string {
	return fmt.Sprintf("`slipway jobs results %s` shows what it has come to, and with --to DIR fetches its files", id)
}
