package batch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
)

// sessionsFirst picks what is submitted next: sessions, for which somebody waits, before jobs, and only so much that
// who comes meanwhile does not wait for all of a large scan.
func sessionsFirst(all []*Call[*submission]) (now, later []*Call[*submission]) {
	rank := func(w *Call[*submission]) int {
		if w.Arg.rec.Session {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(x, y *Call[*submission]) int { return rank(x) - rank(y) })
	n := min(len(all), mostAtOnce)
	return all[:n:n], all[n:]
}

// submit submits what has gathered: what is of one account and shares all lines goes in one transaction.
func (b *Backend) submit(ctx context.Context, all []*Call[*submission]) {
	type key struct{ login, head string }
	groups := map[key][]*Call[*submission]{}
	var order []key
	for _, w := range all {
		k := key{w.Arg.rec.Login, w.Arg.head}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], w)
	}
	for _, k := range order {
		group := groups[k]
		for len(group) > 0 {
			n := min(len(group), b.size.most())
			b.submitGroup(ctx, group[:n])
			group = group[n:]
		}
	}
}

// submissionSize is how many jobs one submission may have, as far as refusals of late have told. Who submits alone uses
// it.
type submissionSize struct {
	at      int       // that one may have; zero: none was too large
	refused time.Time // when one was too large last
}

func (s submissionSize) most() int {
	if s.at > 0 && time.Since(s.refused) < refusalKept {
		return s.at
	}
	return mostAtOnce
}

// mostAtOnce is how many jobs are submitted in one go: some batch systems do nothing else meanwhile.
const mostAtOnce = 1000

// refusalKept is for how long it counts that a submission was too large: its limit is the site's to change, and more
// jobs are tried then.
const refusalKept = 10 * time.Minute

// submitGroup submits jobs that share all lines. When they are refused, one is tried alone: if it is taken, it is their
// number that is too large, or another's fault, and the rest is tried in halves; if not, none would be taken.
func (b *Backend) submitGroup(ctx context.Context, group []*Call[*submission]) {
	if len(group) == 0 {
		return
	}
	err := b.submitOrRepeat(ctx, group)
	if err == nil {
		return
	}
	var left []*Call[*submission]
	for _, w := range group {
		if w.Arg.job.Name == "" {
			w.Err = err
			left = append(left, w)
		}
	}
	if len(left) > 1 && !left[0].Arg.uncertain && isTooMany(err) {
		b.size = submissionSize{len(left) / 2, time.Now()}
		b.submitHalves(ctx, left)
		return
	}
	if len(left) < 2 || left[0].Arg.uncertain || errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Missing) {
		return
	}
	left[0].Err = nil
	if b.submitGroup(ctx, left[:1]); left[0].Err != nil {
		return
	}
	b.submitHalves(ctx, left[1:])
}

func (b *Backend) submitHalves(ctx context.Context, group []*Call[*submission]) {
	for _, w := range group {
		w.Err = nil
	}
	b.submitGroup(ctx, group[:len(group)/2])
	b.submitGroup(ctx, group[len(group)/2:])
}

// submitOrRepeat submits a group, and one that is alone once more when nobody knows why it was refused: of several,
// each is tried again.
func (b *Backend) submitOrRepeat(ctx context.Context, group []*Call[*submission]) error {
	err := b.submitOnce(ctx, group)
	if lone := group[0].Arg; len(group) > 1 || lone.job.Name != "" || lone.uncertain || errs.KindOf(err) != errs.Internal {
		return err
	}
	return b.submitOnce(ctx, group)
}

// submitOnce submits a group in one transaction. After any error it looks into the queue for what is there all the
// same.
func (b *Backend) submitOnce(ctx context.Context, group []*Call[*submission]) error {
	held, err := b.guard.Hold(ctx)
	if err != nil {
		return err
	}
	defer held.Close()
	first := group[0].Arg
	all := Submission{Login: first.rec.Login, GID: first.gid, Head: first.head, Holds: held}
	for _, w := range group {
		all.Entries = append(all.Entries, w.Arg.entry)
	}
	jobs, err := b.system.Submit(ctx, all)
	if err == nil && len(jobs) != len(group) {
		err = fmt.Errorf("%s has taken %d jobs of %d", b.Title(), len(jobs), len(group))
	}
	if err == nil {
		for i, w := range group {
			b.taken(w.Arg, jobs[i])
		}
		return nil
	}
	b.log.Warn("a submission to "+b.Title()+" went wrong", "jobs", len(group), "first", first.rec.ID, "error", err)
	b.findSubmitted(ctx, group, err)
	return err
}

// findSubmitted looks which jobs of a submission that did not end well are in the queue. A system that does not answer
// may have taken them, and one that was slow may take yet what a killed command has sent: that stays uncertain.
func (b *Backend) findSubmitted(ctx context.Context, group []*Call[*submission], cause error) {
	killed := isKilled(cause)
	if killed {
		clock.Sleep(ctx, LateCommit)
	}
	snap, err := b.queue.Since(ctx, time.Now())
	for _, w := range group {
		w.Arg.uncertain = err != nil || killed
		if err != nil {
			continue
		}
		for _, j := range snap.Jobs[w.Arg.rec.ID] {
			if j.Run == Encode(w.Arg.rec.Run) {
				b.taken(w.Arg, j)
			}
		}
	}
}

// taken notes that a submission is in the queue.
func (b *Backend) taken(s *submission, j Job) {
	j.ID, j.Run, j.Login = s.rec.ID, s.entry.Run, s.rec.Login
	s.job, s.uncertain = j, false
	b.queue.Submitted(j)
}
