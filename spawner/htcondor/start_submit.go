package htcondor

import (
	"context"
	"slices"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor/commands"
)

// sessionsFirst picks what is submitted next: sessions, for which somebody waits, before jobs, and only so much that
// who comes meanwhile does not wait for all of a large scan.
func sessionsFirst(all []*batch.Call[*submission]) (now, later []*batch.Call[*submission]) {
	rank := func(w *batch.Call[*submission]) int {
		if w.Arg.rec.Session {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(x, y *batch.Call[*submission]) int { return rank(x) - rank(y) })
	n := min(len(all), mostAtOnce)
	return all[:n:n], all[n:]
}

// submit submits what has gathered: what is of one account and shares all lines goes in one transaction.
func (b *Backend) submit(ctx context.Context, all []*batch.Call[*submission]) {
	type key struct{ login, head string }
	groups := map[key][]*batch.Call[*submission]{}
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
			n := min(len(group), b.atOnce())
			b.submitGroup(ctx, group[:n])
			group = group[n:]
		}
	}
}

// atOnce is how many jobs one submission may have, as far as the schedd's refusals of late have told.
func (b *Backend) atOnce() int {
	if b.most > 0 && time.Since(b.refused) < refusalKept {
		return b.most
	}
	return mostAtOnce
}

// mostAtOnce is how many jobs are submitted in one transaction: the schedd does nothing else meanwhile.
const mostAtOnce = 1000

// refusalKept is for how long it counts that a submission was too large: its limit is the site's to change, and more
// jobs are tried then.
const refusalKept = 10 * time.Minute

// submitGroup submits jobs that share all lines. When they are refused, one is tried alone: if it is taken, it is their
// number that is too large, or another's fault, and the rest is tried in halves; if not, none would be taken.
func (b *Backend) submitGroup(ctx context.Context, group []*batch.Call[*submission]) {
	if len(group) == 0 {
		return
	}
	err := b.submitOrRepeat(ctx, group)
	if err == nil {
		return
	}
	var left []*batch.Call[*submission]
	for _, w := range group {
		if w.Arg.job == "" {
			w.Err = err
			left = append(left, w)
		}
	}
	if len(left) > 1 && !left[0].Arg.uncertain && commands.Complained(err, commands.TooManyAtOnce) {
		b.most, b.refused = len(left)/2, time.Now()
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

func (b *Backend) submitHalves(ctx context.Context, group []*batch.Call[*submission]) {
	for _, w := range group {
		w.Err = nil
	}
	b.submitGroup(ctx, group[:len(group)/2])
	b.submitGroup(ctx, group[len(group)/2:])
}

// submitOrRepeat submits a group, and one that is alone once more when nobody knows why it was refused: of several,
// each is tried again.
func (b *Backend) submitOrRepeat(ctx context.Context, group []*batch.Call[*submission]) error {
	err := b.submitOnce(ctx, group)
	if lone := group[0].Arg; len(group) > 1 || lone.job != "" || lone.uncertain || errs.KindOf(err) != errs.Internal {
		return err
	}
	return b.submitOnce(ctx, group)
}

// submitOnce submits a group in one transaction. After any error it looks into the queue for what is there all the
// same.
func (b *Backend) submitOnce(ctx context.Context, group []*batch.Call[*submission]) error {
	rows := make([]row, len(group))
	for i, w := range group {
		rows[i] = w.Arg.row
	}
	dir, err := b.tokens.of(ctx, group[0].Arg.rec.Login)
	if err != nil {
		return err
	}
	held, err := b.guard.Hold(ctx)
	if err != nil {
		return err
	}
	defer held.Close()
	out, err := b.run(ctx, commands.Command{
		Name: "condor_submit", Args: []string{"-terse", "-disable", "-"}, Tokens: dir,
		Input: description(group[0].Arg.head, rows), Holds: held,
	})
	if err == nil {
		var names []string
		if names, err = parseSubmitted(string(out), len(group)); err == nil {
			for i, w := range group {
				b.taken(w.Arg, names[i])
			}
			return nil
		}
	}
	b.tokens.refused(group[0].Arg.rec.Login, err)
	b.log.Warn("a submission to HTCondor went wrong", "jobs", len(group), "first", group[0].Arg.rec.ID, "error", err)
	b.findSubmitted(ctx, group, err)
	return err
}

// guardFile is what each condor_submit holds a shared lock of for as long as it runs.
const guardFile = ".submitting"

// findSubmitted looks which jobs of a submission that did not end well are in the queue. A schedd that does not answer
// may have taken them, and one that was slow may take yet what a killed command has sent: that stays uncertain.
func (b *Backend) findSubmitted(ctx context.Context, group []*batch.Call[*submission], cause error) {
	f, ok := commands.AsFailure(cause)
	killed := ok && f.Code < 0
	if killed {
		clock.Sleep(ctx, batch.LateCommit)
	}
	snap, err := b.queue.Since(ctx, time.Now())
	for _, w := range group {
		w.Arg.uncertain = err != nil || killed
		if err != nil {
			continue
		}
		for _, j := range snap.Jobs[w.Arg.rec.ID] {
			if j.Launch == encode(w.Arg.rec.Run) {
				b.taken(w.Arg, j.Name())
			}
		}
	}
}

// taken notes that a submission is in the queue.
func (b *Backend) taken(s *submission, name string) {
	s.job, s.uncertain = name, false
	if j, err := submitted(name, s.rec.ID, encode(s.rec.Run), s.rec.Login); err == nil {
		b.queue.Submitted(j)
	}
}
