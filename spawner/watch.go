package spawner

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"
)

// Change is how some points of a scan stand now that have changed.
type Change struct {
	Seq       int64 // who goes on behind it misses nothing
	Workloads []Workload
}

const (
	watchEvery = 500 * time.Millisecond // each point is told of so often at most
	watchBatch = 500                    // points that one Change has at most
)

// stampsFrom gives the number of changes from which a service counts. Numbers have to grow over restarts, for who watches comes back with
// the last one that she has; to save the number with each change would be a second write for each. So it begins with the milliseconds of
// the clock, or of the newest record if the clock was set back since: no service makes a thousand changes in each millisecond. What is left,
// a number that has not come yet, stands for nothing seen. It stays below 2^53, where JSON's numbers end for some who read them.
func stampsFrom(now, newest time.Time) int64 { return max(latest(now, newest).UnixMilli(), 0) << 10 }

// touchLocked notes that something has changed of how a workload stands.
func (m *Manager) touchLocked(e *entry) {
	m.stamp++
	e.stamp = m.stamp
}

// Watch tells how the points of a scan stand: at first of all that have changed behind the number after, then of those that change, in the
// order in which they last did, until all have ended or ctx does. A point that changes often is told of as it stands then, not each time.
func (m *Manager) Watch(ctx context.Context, c Caller, scan string, after int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for begun := false; ctx.Err() == nil; begun = true {
			next, err := m.changesAfter(c, scan, after)
			if err != nil && begun { // all of it was removed meanwhile
				return
			}
			if err != nil {
				yield(Change{}, err)
				return
			}
			if len(next.Workloads) > 0 && !yield(next.Change, nil) {
				return
			}
			after = next.Seq
			switch {
			case next.more:
			case next.ended:
				return
			default:
				pause(ctx, watchEvery)
			}
		}
	}
}

// glance is one look at a scan.
type glance struct {
	Change
	more  bool // there are more changes than these
	ended bool // all points have
}

// changesAfter gives what has changed last of a scan behind a number. It is one pass over the points, and copies a batch of them at most.
func (m *Manager) changesAfter(c Caller, scan string, after int64) (glance, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if after > m.stamp {
		after = 0
	}
	g, found := glance{ended: true}, false
	var changed []*entry
	for _, e := range m.index.scans[scan] {
		if !c.may(e.Workload) {
			continue
		}
		if found = true; e.stamp > after {
			changed = append(changed, e)
		}
		g.ended = g.ended && !e.Phase.Active()
	}
	if !found {
		return g, noScan(scan)
	}
	slices.SortFunc(changed, func(a, b *entry) int { return cmp.Compare(a.stamp, b.stamp) })
	if g.more = len(changed) > watchBatch; g.more {
		changed = changed[:watchBatch]
	}
	g.Seq = after
	for _, e := range changed {
		g.Seq, g.Workloads = e.stamp, append(g.Workloads, e.Workload)
	}
	return g, nil
}
