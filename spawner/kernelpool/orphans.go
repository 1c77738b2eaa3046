package kernelpool

import (
	"context"
	"time"

	"slipway/spawner"
)

// tidyKernels ends the kernels whose sessions have ended: a kernel that was started from a session is there for it
// alone, and holds a slice. It ends those as well that wait for a slice which nobody wants any more.
func (k *Pool) tidyKernels(ctx context.Context) {
	for _, id := range k.orphanKernels() {
		k.endKernel(ctx, id, "a kernel ends with the session that started it")
	}
	for _, id := range k.forsakenKernels(time.Now()) {
		k.endKernel(ctx, id, "a kernel that waits ends because nobody asks for it any more")
	}
}

func (k *Pool) endKernel(ctx context.Context, id spawner.ID, why string) {
	k.log.Info(why, "id", id)
	if err := k.engine.Remove(ctx, spawner.Caller{System: true}, id); err != nil {
		k.log.Warn("cannot end a kernel that nobody wants any more", "id", id, "err", err)
	}
}

func (k *Pool) orphanKernels() (ids []spawner.ID) {
	v := k.engine.View()
	defer v.End()
	for id, e := range v.OfKind(spawner.Kernel) {
		if e.Session == "" || e.Want == spawner.WantGone {
			continue
		}
		if s := v.Entry(e.Session); s == nil || !s.Phase.Active() {
			ids = append(ids, id)
		}
	}
	return ids
}

// forsakenKernels returns the tied kernels that are not up yet and for which nobody has asked for as long as they may
// be left. While the service is away nobody can ask: that time does not count.
func (k *Pool) forsakenKernels(now time.Time) (ids []spawner.ID) {
	tx := k.engine.Begin()
	defer tx.End()
	for id, e := range tx.OfKind(spawner.Kernel) {
		if e.Spec.Life.Away == 0 || e.Phase == spawner.Running || e.Want != spawner.WantRunning {
			continue
		}
		if e.Pulse.Asked.IsZero() {
			e.Pulse.Asked = now
		}
		if now.Sub(e.Pulse.Asked) >= e.Spec.Life.Away {
			ids = append(ids, id)
		}
	}
	return ids
}

// trackOrphan ends a kernel for which nobody has come for as long as it may be left. How long that is, is what this run
// of the service has seen: while the service is away nobody can come.
func (k *Pool) trackOrphan(ctx context.Context, id spawner.ID, left bool) {
	if k.orphaned(ctx, id, left, time.Now()) {
		k.endKernel(ctx, id, "a kernel ends because no client has come, or come back")
	}
}

func (k *Pool) orphaned(ctx context.Context, id spawner.ID, left bool, now time.Time) bool {
	tx := k.engine.Begin()
	defer tx.End()
	e := tx.Entry(id)
	if e == nil {
		return false
	}
	patience := e.Spec.Life.Away
	if e.Visited.IsZero() && patience == 0 {
		patience = e.Spec.Life.FirstClient
	}
	switch {
	case patience == 0 || e.Standby != "":
		return false
	case !left && e.Visited.IsZero():
		e.Visited = now
		tx.SaveActivity(ctx, e, now)
		return false
	case !left:
		e.Pulse.Left = time.Time{}
		return false
	case e.Pulse.Left.IsZero():
		e.Pulse.Left = now
	}
	return now.Sub(e.Pulse.Left) >= patience
}
