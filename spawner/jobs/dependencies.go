package jobs

import (
	"context"

	"slipway/spawner"
	"slipway/spawner/engine"
)

// undone returns those of some jobs and scans that are not done.
func (j *Jobs) undone(after []string) []string {
	v := j.engine.View()
	defer v.End()
	return v.Sched().Undone(after)
}

// checkAfter refuses what cannot be waited for.
func (j *Jobs) checkAfter(c spawner.Caller, after []string) error {
	v := j.engine.View()
	defer v.End()
	return v.Sched().CheckDependencies(c.Principal(), after)
}

// checkThere refuses to try a job again that would wait for what has been removed.
func (j *Jobs) checkThere(w spawner.Workload) error {
	v := j.engine.View()
	defer v.End()
	return v.Sched().CheckThere(w)
}

// clearDependency notes durably which of those that a job waits for are done: they may be removed then. All who wait
// for the same are noted at once: these may be thousands.
func (j *Jobs) clearDependency(ctx context.Context, e engine.Entry) error {
	tx := j.engine.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	var peers []*engine.Entry
	left := map[spawner.ID][]string{}
	for _, id := range tx.Sched().Peers(&now.Workload, engine.MostTogether) {
		peer := tx.Entry(id)
		peers, left[id] = append(peers, peer), tx.Sched().Undone(peer.After)
	}
	if err := tx.ChangeAll(ctx, peers, func(e *engine.Entry) { e.After = left[e.ID] }); err != nil {
		return err
	}
	for _, peer := range peers {
		if len(peer.After) == 0 {
			tx.Note(peer, spawner.Event{Percent: 0, Message: "What it has waited for is done: it stands in line"})
		}
		j.engine.Wake(peer.ID)
	}
	return nil
}
