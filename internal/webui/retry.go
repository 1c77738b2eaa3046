package webui

import (
	"net/http"
	"strings"
	"time"

	"slipway/internal/units"
)

// Retry is what the page that asks how to try a job, or the failed points of a scan, again is made of.
type Retry struct {
	Title   string // what is tried again
	Path    string // of its page, below the pages
	Why     string // it failed
	Points  int    // of the scan that are meant; 0: it is one job
	Had     Limits
	Suggest Limits
	Most    Limits
}

// Limits are a job's.
type Limits struct {
	Memory int64
	Time   time.Duration // zero: none
}

// TimeText writes a time as forms have it and read it: 2h, 1h30m.
func TimeText(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	text := d.String()
	for _, nothing := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, nothing) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// retryForm is the page's body.
type retryForm struct {
	question
	Why                                string
	Memory, MemoryNote, Time, TimeNote string
}

// AskRetry asks how something is to be tried again.
func AskRetry(w http.ResponseWriter, v Visit, r Retry) error {
	page := v.Prefix + r.Path
	f := retryForm{
		question: question{
			Visit: v, Question: "Retry " + r.Title + "?", Action: page + "/retry", Page: page,
		}, Why: r.Why,
		Memory: units.FormatMemory(r.Suggest.Memory), Time: TimeText(r.Suggest.Time),
		MemoryNote: "It had " + units.MemoryWords(r.Had.Memory) + ", and may have " + units.MemoryWords(r.Most.Memory) +
			".",
		TimeNote: "It had no limit of its own; it may have " + TimeText(r.Most.Time) + ".",
	}
	if r.Had.Time > 0 {
		f.TimeNote = "It had " + TimeText(r.Had.Time) + ", and may have " + TimeText(r.Most.Time) + "."
	}
	if r.Points > 0 {
		f.Question = "Retry " + pointsThat(r.Points, "failed", "failed") + " of " + r.Title + "?"
	}
	return write(w, http.StatusOK, "retry.html", frame{Title: f.Question, Visit: v, Body: f})
}
