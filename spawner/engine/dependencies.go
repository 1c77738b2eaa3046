package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/spawner"
)

// mostAfter is how many jobs and scans one job may wait for.
const mostAfter = 100

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
	points, done, lost int
	told               fate       // what those who wait for it were last woken for
	last               spawner.ID // of those that were lost, while it is
}

func (t *scanSum) fate() fate {
	switch {
	case t == nil || t.points == 0 || t.lost > 0:
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
		t.lost += n
		t.last = w.ID
	}
}

// waitBook knows who waits for what, and what has become of scans: a scan of thousands that waits for a scan of thousands must not be looked
// through for each point. It agrees with the records at all times, for changeLocked keeps it. The Manager's lock guards it.
type waitBook struct {
	waiting map[string]map[spawner.ID]bool // who waits, by the job or scan that it waits for
	scans   map[string]*scanSum
}

func newWaitBook() waitBook {
	return waitBook{waiting: map[string]map[spawner.ID]bool{}, scans: map[string]*scanSum{}}
}

// put enters w, which was before until now, and gives the job and the scan of which those who wait are to hear.
func (b waitBook) put(before, w *spawner.Workload) (tell []string) {
	if w.Kind != spawner.Job {
		return nil
	}
	if before.AwaitsDependencies() != w.AwaitsDependencies() || len(before.After) != len(w.After) {
		b.cross(before)
		if w.AwaitsDependencies() {
			b.note(w)
		}
	}
	if f := fateOf(w); f != open && (before.ID == "" || f != fateOf(before)) && len(b.waiting[string(w.ID)]) > 0 {
		tell = append(tell, string(w.ID))
	}
	if w.Scan != "" && b.recount(before, w) {
		tell = append(tell, w.Scan)
	}
	return tell
}

// recount counts w in its scan, and reports whether those who wait for that are to hear of it.
func (b waitBook) recount(before, w *spawner.Workload) bool {
	t := b.scans[w.Scan]
	if t == nil {
		t = &scanSum{}
		b.scans[w.Scan] = t
	}
	if before.ID != "" {
		t.count(before, -1)
	}
	t.count(w, 1)
	is := t.fate()
	news := is != t.told
	t.told = is
	return news && is != open && len(b.waiting[w.Scan]) > 0
}

func (b waitBook) note(w *spawner.Workload) {
	for _, target := range w.After {
		if b.waiting[target] == nil {
			b.waiting[target] = map[spawner.ID]bool{}
		}
		b.waiting[target][w.ID] = true
	}
}

func (b waitBook) cross(w *spawner.Workload) {
	for _, target := range w.After {
		if delete(b.waiting[target], w.ID); len(b.waiting[target]) == 0 {
			delete(b.waiting, target)
		}
	}
}

// drop forgets w.
func (b waitBook) drop(w *spawner.Workload) {
	b.cross(w)
	if t := b.scans[w.Scan]; t != nil {
		if t.count(w, -1); t.points == 0 {
			delete(b.scans, w.Scan)
		}
	}
}

// needed reports whether somebody still has to see what has become of w.
func (b waitBook) needed(w *spawner.Workload) bool {
	if len(b.waiting[string(w.ID)]) > 0 {
		return true
	}
	return w.Scan != "" && len(b.waiting[w.Scan]) > 0 && (fateOf(w) != good || b.scans[w.Scan].points == 1)
}

// tellWaitingLocked has those looked at who wait for something.
func (m *Manager) tellWaitingLocked(targets []string) {
	for _, target := range targets {
		for id := range m.waits.waiting[target] {
			m.queue.add(id)
		}
	}
}

// needed reports whether a workload has to stay known for a moment, because somebody waits for it who has not seen how it ended.
func (m *Manager) needed(w *spawner.Workload) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.waits.needed(w)
}

// fateLocked says what has become of a job or scan; one that is not there any more is lost.
func (m *Manager) fateLocked(target string) fate {
	if e := m.work[spawner.ID(target)]; e != nil {
		return fateOf(&e.Workload)
	}
	return m.waits.scans[target].fate()
}

// prerequisites is what has become of what a job waits for.
type prerequisites struct {
	open bool // some of it goes on
	met  bool // some of it is done
	lost bool // some of it never will be
}

func (m *Manager) prerequisites(w *spawner.Workload) (p prerequisites) {
	if !w.AwaitsDependencies() {
		return p
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, target := range w.After {
		switch m.fateLocked(target) {
		case good:
			p.met = true
		case lost:
			p.lost = true
		default:
			p.open = true
		}
	}
	return p
}

// clearDependency notes durably which of those that a job waits for are done: they may be removed then. All who wait for the same are noted at once:
// these may be thousands.
func (m *Manager) clearDependency(ctx context.Context, e entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev {
		return nil
	}
	peers := m.peersLocked(now)
	changes := make([]change, len(peers))
	for i, peer := range peers {
		left := slices.DeleteFunc(slices.Clone(peer.After), func(target string) bool { return m.fateLocked(target) == good })
		if len(left) == 0 {
			left = nil
		}
		changes[i] = peer.change(func(e *entry) { e.After = left })
	}
	if err := m.saveLocked(ctx, changes); err != nil {
		return err
	}
	for _, peer := range peers {
		if len(peer.After) == 0 {
			m.noteLocked(peer, spawner.Event{Percent: 0, Message: "What it has waited for is done: it stands in line"})
		}
		m.queue.add(peer.ID)
	}
	return nil
}

// peersLocked returns e and others that wait for something that e waits for and that is done.
func (m *Manager) peersLocked(e *entry) []*entry {
	peers, has := []*entry{e}, map[spawner.ID]bool{e.ID: true}
	for _, target := range e.After {
		if m.fateLocked(target) != good {
			continue
		}
		for id := range m.waits.waiting[target] {
			if peer := m.work[id]; peer != nil && !has[id] && len(peers) < mostTogether {
				peers, has[id] = append(peers, peer), true
			}
		}
	}
	return peers
}

// forsaken is the outcome of a job that waits in vain.
func (m *Manager) forsaken(w *spawner.Workload) spawner.Outcome {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, target := range w.After {
		if m.fateLocked(target) == lost {
			return spawner.Outcome{
				Failed: true, ExitCode: 1, Cause: spawner.CauseDependency, Reason: "it was to start after " + m.lossLocked(target),
				Remedy: m.remedyLocked(target),
			}
		}
	}
	return spawner.Outcome{Failed: true, ExitCode: 1, Cause: spawner.CauseDependency, Reason: "what it was to start after has failed"}
}

// remedyLocked says what to do with a job that has waited in vain for another.
func (m *Manager) remedyLocked(target string) string {
	if m.thereLocked(target) {
		return "have that done first, then try this one again: `slipway jobs retry`"
	}
	return "submit it anew, without that: `slipway jobs resubmit`"
}

// thereLocked reports whether a job or scan is there still, and may be done one day.
func (m *Manager) thereLocked(target string) bool {
	if e := m.work[spawner.ID(target)]; e != nil {
		return e.Want != spawner.WantGone
	}
	return m.waits.scans[target] != nil
}

// checkThere refuses to try a job again that would wait for what has been removed.
func (m *Manager) checkThere(w spawner.Workload) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, target := range w.After {
		if !m.thereLocked(target) {
			return errs.New(errs.Conflict, "job %s was to start after %s, which is not there any more", w.ID, target).
				With("submit it anew, without that: `slipway jobs resubmit`")
		}
	}
	return nil
}

// lossLocked says in words what has become of a job or scan that is lost.
func (m *Manager) lossLocked(target string) string {
	if spawner.ID(target).OfJob() {
		return "job " + target + ", which " + m.endOfLocked(spawner.ID(target))
	}
	t := m.waits.scans[target]
	if t == nil {
		return target + ", which was removed before it was done"
	}
	e := m.work[t.last]
	if e == nil || fateOf(&e.Workload) != lost {
		i := slices.IndexFunc(m.index.scans[target], func(e *entry) bool { return fateOf(&e.Workload) == lost })
		if i < 0 {
			return target + ", which has failed"
		}
		e = m.index.scans[target][i]
	}
	return fmt.Sprintf("%s, of which point %d (job %s) %s", target, e.Point, e.ID, m.endOfLocked(e.ID))
}

func (m *Manager) endOfLocked(id spawner.ID) string {
	switch e := m.work[id]; {
	case e == nil || e.Want == spawner.WantGone:
		return "was removed before it was done"
	case e.Outcome == nil || e.Outcome.Canceled:
		return "was canceled"
	default:
		reason, _, _ := strings.Cut(e.Outcome.Reason, ": it was to start after ") // of a chain the first link says enough
		return "has failed: " + reason
	}
}

// awaited says in words what a job waits for.
func (m *Manager) awaited(w *spawner.Workload) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.awaitedLocked(w)
}

func (m *Manager) awaitedLocked(w *spawner.Workload) string {
	var parts []string
	for _, target := range w.After {
		if t := m.waits.scans[target]; t != nil {
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

// checkAfter refuses what cannot be waited for: what is not the caller's, and what is lost already.
func (m *Manager) checkAfter(c spawner.Caller, after []string) error {
	if len(after) > mostAfter {
		return errs.Bad("after", fmt.Sprintf("%d jobs and scans", len(after)), fmt.Sprintf("at most %d", mostAfter))
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, target := range after {
		if !m.ownsLocked(c, target) {
			return errs.New(errs.NotFound, "after: there is no job or scan %.80q of yours", target).With("`slipway jobs` lists them")
		}
		if m.fateLocked(target) == lost {
			return errs.New(errs.Conflict, "after: it would wait in vain for %s", m.lossLocked(target)).
				With("try that again first: `slipway jobs retry`; or submit without it")
		}
	}
	return nil
}

// undone returns those of which something goes on.
func (m *Manager) undone(after []string) (left []string) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, target := range after {
		if m.fateLocked(target) != good && !slices.Contains(left, target) {
			left = append(left, target)
		}
	}
	return left
}

func (m *Manager) ownsLocked(c spawner.Caller, target string) bool {
	e := m.work[spawner.ID(target)]
	if points := m.index.scans[target]; len(points) > 0 {
		e = points[0]
	}
	return e != nil && e.Kind == spawner.Job && e.Principal() == spawner.Principal{Hub: c.Hub, User: c.User}
}
