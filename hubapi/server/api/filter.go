package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
)

// Filter is a parsed hubapi.JobFilter. The zero value matches everything.
type Filter struct {
	states []hubapi.State
	name   string // lower case
	since  time.Time
}

// FilterOf reads the filter of a request's query.
func FilterOf(r *http.Request) (f Filter, err error) {
	q := r.URL.Query()
	if f.states, err = statesOf(q.Get("state")); err != nil {
		return f, err
	}
	f.name = strings.ToLower(strings.TrimSpace(q.Get("name")))
	since := q.Get("since")
	if f.since, err = units.ParseSince(since, time.Now()); err != nil {
		return f, errs.Bad("since", since, "how long ago, such as 90m, 2d or 1w, or a day such as 2026-11-20")
	}
	return f, nil
}

// statesOf reads states that commas part.
func statesOf(list string) (states []hubapi.State, err error) {
	if list == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(list, ",") {
		state := hubapi.State(word)
		if !slices.Contains(hubapi.Order(), state) {
			return nil, errs.Bad(
				"state", word, "some of pending, running, done, failed and canceled, with commas between them",
			)
		}
		states = append(states, state)
	}
	return states, nil
}

// Has reports whether a job matches.
func (f Filter) Has(w *spawner.Workload) bool {
	return f.called(w.Name, string(w.ID)) && !w.Created.Before(f.since) && (f.states == nil ||
		slices.Contains(f.states, convert.State(w)))
}

// HasScan reports whether a scan matches: one point in a wanted state is enough.
func (f Filter) HasScan(s hubapi.Scan) bool {
	some := func(state hubapi.State) bool { return s.States[state] > 0 }
	return f.called(s.Name, s.ID) && !s.Created.Before(f.since) && (f.states == nil ||
		slices.ContainsFunc(f.states, some))
}

func (f Filter) called(name, id string) bool {
	return strings.Contains(strings.ToLower(name), f.name) || strings.HasPrefix(id, f.name)
}
