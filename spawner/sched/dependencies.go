package sched

import (
	"fmt"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/spawner"
)

// MostDependencies is how many jobs and scans one job may wait for.
const MostDependencies = 100

// fate is what has become of something that others wait for.
type fate int

const (
	open fate = iota // it goes on
	good             // it is done
	lost             // it never will be, unless it is tried again
)

// fateOf says what has become of a job. What its owner wants removed before it is done is lost.
func fateOf(w *spawner.Workload) fate {
	switch o := w.Outcome; {
	case !w.Phase.Active() && o != nil && !o.Failed && !o.Canceled:
		return good
	case !w.Phase.Active(), w.Want == spawner.WantGone:
		return lost
	default:
		return open
	}
}

// scanSum tells what has become of the points of a scan.
type scanSum struct {
	points, done int
	lost         map[spawner.ID]bool
	last         spawner.ID // of those that were lost, while it is
	told         fate       // what those who wait for it were last woken for
	owner        spawner.Principal
}

func (t *scanSum) fate() fate {
	switch {
	case t == nil || t.points == 0 || len(t.lost) > 0:
		return lost
	case t.done == t.points:
		return good
	default:
		return open
	}
}

func (t *scanSum) count(w *spawner.Workload, n int) {
	t.points += n
	switch fateOf(w) {
	case good:
		t.done += n
	case lost:
		if t.last = w.ID; n > 0 {
			t.lost[w.ID] = true
		} else {
			delete(t.lost, w.ID)
		}
	}
}

// dependencies know who waits for what, and what has become of scans: a scan of thousands that waits for a scan of
// thousands must not be looked through for each point. It agrees with the records at all times, for Put keeps it so.
type dependencies struct {
	waiting map[string]map[spawner.ID]bool // who waits, by the job or scan that it waits for
	scans   map[string]*scanSum
}

func newDependencies() dependencies {
	return dependencies{waiting: map[string]map[spawner.ID]bool{}, scans: map[string]*scanSum{}}
}

// put enters w, which was before until now, and returns the job and the scan of which those who wait are to hear.
func (d dependencies) put(before, w *spawner.Workload) (tell []string) {
	if w.Kind.Session() {
		return nil
	}
	if before.AwaitsDependencies() != w.AwaitsDependencies() || len(before.After) != len(w.After) {
		d.cross(before)
		if w.AwaitsDependencies() {
			d.note(w)
		}
	}
	if f := fateOf(w); f != open && (before.ID == "" || f != fateOf(before)) && len(d.waiting[string(w.ID)]) > 0 {
		tell = append(tell, string(w.ID))
	}
	if w.Scan != "" && d.recount(before, w) {
		tell = append(tell, w.Scan)
	}
	return tell
}

// recount counts w in its scan, and reports whether those who wait for that are to hear of it.
func (d dependencies) recount(before, w *spawner.Workload) bool {
	t := d.scans[w.Scan]
	if t == nil {
		t = &scanSum{lost: map[spawner.ID]bool{}, owner: w.Principal()}
		d.scans[w.Scan] = t
	}
	if before.ID != "" {
		t.count(before, -1)
	}
	t.count(w, 1)
	is := t.fate()
	news := is != t.told
	t.told = is
	return news && is != open && len(d.waiting[w.Scan]) > 0
}

func (d dependencies) note(w *spawner.Workload) {
	for _, target := range w.After {
		if d.waiting[target] == nil {
			d.waiting[target] = map[spawner.ID]bool{}
		}
		d.waiting[target][w.ID] = true
	}
}

func (d dependencies) cross(w *spawner.Workload) {
	for _, target := range w.After {
		if delete(d.waiting[target], w.ID); len(d.waiting[target]) == 0 {
			delete(d.waiting, target)
		}
	}
}

// drop forgets w.
func (d dependencies) drop(w *spawner.Workload) {
	d.cross(w)
	if t := d.scans[w.Scan]; t != nil {
		if t.count(w, -1); t.points == 0 {
			delete(d.scans, w.Scan)
		}
	}
}

// needed reports whether somebody still has to see what has become of w.
func (d dependencies) needed(w *spawner.Workload) bool {
	if len(d.waiting[string(w.ID)]) > 0 {
		return true
	}
	return w.Scan != "" && len(d.waiting[w.Scan]) > 0 && (fateOf(w) != good || d.scans[w.Scan].points == 1)
}

// Needed reports whether somebody waits for w who has not seen yet how it ended. Reads only.
func (s *Scheduler) Needed(w *spawner.Workload) bool { return s.waits.needed(w) }

// waiters returns who waits for some jobs and scans.
func (s *Scheduler) waiters(targets []string) (ids []spawner.ID) {
	for _, target := range targets {
		for id := range s.waits.waiting[target] {
			ids = append(ids, id)
		}
	}
	return ids
}

// fate says what has become of a job or scan; one that is not there any more is lost.
func (s *Scheduler) fate(target string) fate {
	if w := s.work[spawner.ID(target)]; w != nil {
		return fateOf(w)
	}
	return s.waits.scans[target].fate()
}

// Prerequisites is what has become of what a job waits for.
type Prerequisites struct {
	Open bool // some of it goes on
	Met  bool // some of it is done
	Lost bool // some of it never will be
}

// Prerequisites returns what has become of what w waits for. Reads only.
func (s *Scheduler) Prerequisites(w *spawner.Workload) (p Prerequisites) {
	if !w.AwaitsDependencies() {
		return p
	}
	for _, target := range w.After {
		switch s.fate(target) {
		case good:
			p.Met = true
		case lost:
			p.Lost = true
		default:
			p.Open = true
		}
	}
	return p
}

// Undone returns those of some jobs and scans of which something goes on, or is lost, each once. Reads only.
func (s *Scheduler) Undone(after []string) (left []string) {
	for _, target := range after {
		if s.fate(target) != good && !slices.Contains(left, target) {
			left = append(left, target)
		}
	}
	return left
}

// Peers returns w and others, most in all, that wait for something that w waits for and that is done. Reads only.
func (s *Scheduler) Peers(w *spawner.Workload, most int) []spawner.ID {
	peers, has := []spawner.ID{w.ID}, map[spawner.ID]bool{w.ID: true}
	for _, target := range w.After {
		if s.fate(target) != good {
			continue
		}
		for id := range s.waits.waiting[target] {
			if s.work[id] != nil && !has[id] && len(peers) < most {
				peers, has[id] = append(peers, id), true
			}
		}
	}
	return peers
}

// Forsaken is the outcome of a job that waits in vain. Reads only.
func (s *Scheduler) Forsaken(w *spawner.Workload) spawner.Outcome {
	o := spawner.Outcome{
		Failed: true, ExitCode: 1, Cause: spawner.CauseDependency, Reason: "what it was to start after has failed",
	}
	for _, target := range w.After {
		if s.fate(target) == lost {
			o.Reason, o.Remedy = "it was to start after "+s.loss(target), s.remedy(target)
			return o
		}
	}
	return o
}

// remedy says what to do with a job that has waited in vain for another.
func (s *Scheduler) remedy(target string) string {
	if s.there(target) {
		return "have that done first, then try this one again: `slipway jobs retry`"
	}
	return "submit it anew, without that: `slipway jobs resubmit`"
}

// there reports whether a job or scan is there still, and may be done one day.
func (s *Scheduler) there(target string) bool {
	if w := s.work[spawner.ID(target)]; w != nil {
		return w.Want != spawner.WantGone
	}
	return s.waits.scans[target] != nil
}

// CheckThere refuses to try a job again that would wait for what has been removed. Reads only.
func (s *Scheduler) CheckThere(w spawner.Workload) error {
	for _, target := range w.After {
		if !s.there(target) {
			return errs.New(errs.Conflict, "job %s was to start after %s, which is not there any more", w.ID, target).
				With("submit it anew, without that: `slipway jobs resubmit`")
		}
	}
	return nil
}

// loss says in words what has become of a job or scan that is lost.
func (s *Scheduler) loss(target string) string {
	if spawner.ID(target).OfJob() {
		return "job " + target + ", which " + s.endOf(spawner.ID(target))
	}
	t := s.waits.scans[target]
	if t == nil {
		return target + ", which was removed before it was done"
	}
	w := s.work[t.last]
	if w == nil || fateOf(w) != lost {
		if w = s.lostPoint(t); w == nil {
			return target + ", which has failed"
		}
	}
	return fmt.Sprintf("%s, of which point %d (job %s) %s", target, w.Point, w.ID, s.endOf(w.ID))
}

// lostPoint returns the first point of a scan that is lost; nil: none is.
func (s *Scheduler) lostPoint(t *scanSum) (first *spawner.Workload) {
	for id := range t.lost {
		if w := s.work[id]; w != nil && (first == nil || w.Point < first.Point) {
			first = w
		}
	}
	return first
}

func (s *Scheduler) endOf(id spawner.ID) string {
	switch w := s.work[id]; {
	case w == nil || w.Want == spawner.WantGone:
		return "was removed before it was done"
	case w.Outcome == nil || w.Outcome.Canceled:
		return "was canceled"
	default:
		// of a chain the first link says enough
		reason, _, _ := strings.Cut(w.Outcome.Reason, ": it was to start after ")
		return "has failed: " + reason
	}
}

// Awaited says in words what a job waits for. Reads only.
func (s *Scheduler) Awaited(w *spawner.Workload) string {
	var parts []string
	for _, target := range w.After {
		if t := s.waits.scans[target]; t != nil {
			parts = append(parts, fmt.Sprintf("%s to be done (%d of %d points are)", target, t.done, t.points))
		} else {
			parts = append(parts, "job "+target+" to be done")
		}
	}
	const most = 3
	if n := len(parts) - most; n > 0 {
		parts = append(parts[:most], fmt.Sprintf("%d more", n))
	}
	return "waits for " + strings.Join(parts, ", ")
}

// CheckDependencies refuses what a job of a user cannot wait for: what is not the user's, and what is lost already.
// Reads only.
func (s *Scheduler) CheckDependencies(o spawner.Principal, after []string) error {
	if len(after) > MostDependencies {
		return errs.Bad(
			"after", fmt.Sprintf("%d jobs and scans", len(after)), fmt.Sprintf("at most %d", MostDependencies),
		)
	}
	for _, target := range after {
		if !s.owns(o, target) {
			return errs.New(errs.NotFound, "after: there is no job or scan %.80q of yours", target).With("`slipway jobs` lists them")
		}
		if s.fate(target) == lost {
			return errs.New(errs.Conflict, "after: it would wait in vain for %s", s.loss(target)).
				With("try that again first: `slipway jobs retry`; or submit without it")
		}
	}
	return nil
}

func (s *Scheduler) owns(o spawner.Principal, target string) bool {
	if t := s.waits.scans[target]; t != nil {
		return t.owner == o
	}
	w := s.work[spawner.ID(target)]
	return w != nil && w.Kind.Batch() && w.Principal() == o
}
