package bench

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
)

// The steps of a load, in their order.
const (
	Token  = "token"
	Post   = "start answered" // from the POST to its answer; a Hub gives one in 10 s, and may ask to come again
	Ready  = "ready"          // from the POST to the server's being ready
	Visit  = "visit"
	Stop   = "stop"
	Delete = "delete user"
)

// Steps returns them in their order.
func Steps() []string { return []string{Token, Post, Ready, Visit, Stop, Delete} }

// Report is what a load has found.
type Report struct {
	Users     int             `json:"users"`
	Began     time.Time       `json:"began"`
	Up        int             `json:"up"`          // servers that became ready
	MostUp    int             `json:"most_up"`     // at one time
	UpSeconds float64         `json:"up_s"`        // from the first start asked for to the last server's being ready
	DownIn    float64         `json:"down_s"`      // from the first stop to the last server's being gone
	Cut       string          `json:"interrupted"` // why not all was done; empty: it was
	Steps     map[string]Step `json:"steps"`
	Left      []string        `json:"left"` // users who could not be removed
}

// Failed tells how many things did not work.
func (r Report) Failed() int {
	n := len(r.Left)
	for _, s := range r.Steps {
		n += s.Failed
	}
	return n
}

// Step is how often one thing worked, and how long it took where it did.
type Step struct {
	Spread
	Failed  int            `json:"failed"`
	Reasons map[string]int `json:"reasons,omitempty"`
}

// State is how a load goes.
type State struct {
	Doing                  string
	Users, Up, Asked, Down int // Asked: starts asked for so far; Down: servers stopped
	Failed                 int
	Since                  time.Duration
}

// String says it in one line.
func (s State) String() string {
	return fmt.Sprintf("%3.0f s  %-9s up %d of %d, starting %d, stopped %d, failed %d",
		s.Since.Seconds(), s.Doing, s.Up-s.Down, s.Users, s.Asked-s.Up, s.Down, s.Failed)
}

// book keeps what happens.
type book struct {
	began time.Time
	mu    sync.Mutex // guards all below
	state State
	most  int
	steps map[string]*entry
}

type entry struct {
	times   Times
	reasons map[string]int
	failed  int
}

func newBook(users int, now time.Time) *book {
	b := &book{began: now, state: State{Users: users}, steps: map[string]*entry{}}
	for _, name := range Steps() {
		b.steps[name] = &entry{reasons: map[string]int{}}
	}
	return b
}

// mostReasons bounds the table of reasons, for a Hub that never fails twice alike.
const mostReasons = 20

// note books how a step of a user went.
func (b *book) note(step, user string, took time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.steps[step]
	if err == nil {
		e.times.Add(took)
		return
	}
	e.failed++
	b.state.Failed++
	why := reason(err, user)
	if _, known := e.reasons[why]; !known && len(e.reasons) >= mostReasons {
		why = "other reasons"
	}
	e.reasons[why]++
}

// reason returns an error's words without the user's name, so that equal ones are counted together.
func reason(err error, user string) string {
	text := err.Error()
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Remedy != "" {
		text = strings.TrimSuffix(text, ": "+e.Remedy)
	}
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, user, "USER")), " ")
	return fmt.Sprintf("%.200s", text)
}

// edit changes the state.
func (b *book) edit(do func(*State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do(&b.state)
	b.most = max(b.most, b.state.Up-b.state.Down)
}

func (b *book) now(now time.Time) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.state
	s.Since = now.Sub(b.began)
	return s
}

func (b *book) report() Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := Report{
		Users: b.state.Users, Began: b.began.UTC(), Up: b.state.Up, MostUp: b.most,
		Steps: map[string]Step{}, Left: []string{},
	}
	for name, e := range b.steps {
		r.Steps[name] = Step{Spread: e.times.Spread(), Failed: e.failed, Reasons: maps.Clone(e.reasons)}
	}
	return r
}

// Rows returns the report as a table's head and rows.
func (r Report) Rows() (head []string, rows [][]string) {
	for _, name := range Steps() {
		s := r.Steps[name]
		row := []string{name, fmt.Sprint(s.Count), fmt.Sprint(s.Failed)}
		for _, ms := range []float64{s.P50, s.P95, s.P99, s.Max} {
			row = append(row, fmt.Sprintf("%.3f", ms/1000))
		}
		rows = append(rows, row)
	}
	return []string{"STEP", "OK", "FAILED", "P50 (s)", "P95", "P99", "MAX"}, rows
}

// Why returns what went wrong, the most frequent first.
func (r Report) Why() []string {
	var lines []string
	for _, name := range Steps() {
		reasons := r.Steps[name].Reasons
		for _, why := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return reasons[b] - reasons[a] }) {
			lines = append(lines, fmt.Sprintf("%s: %d times: %s", name, reasons[why], why))
		}
	}
	return lines
}
