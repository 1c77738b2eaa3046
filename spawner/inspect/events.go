package inspect

import (
	"context"
	"iter"

	"slipway/spawner"
)

// Events returns what happens to one launch of a workload, the current one when launch is empty: from behind the number
// after on, as it happens. It ends behind a final event, when another launch has taken the place of this one, and with
// ctx.
func (i *Inspector) Events(
	ctx context.Context, c spawner.Caller, id spawner.ID, launch string, after int64,
) (iter.Seq[spawner.Event], error) {
	w, err := i.engine.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if launch == "" {
		launch = w.Launch
	}
	return func(yield func(spawner.Event) bool) {
		for {
			events, changed := i.eventsAfter(id, launch, after)
			for _, e := range events {
				after = e.Seq
				if !yield(e) || e.Final {
					return
				}
			}
			if changed == nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}, nil
}

// eventsAfter returns the events and a channel that closes at the next change; nil when there will be no more of this
// launch.
func (i *Inspector) eventsAfter(id spawner.ID, launch string, after int64) ([]spawner.Event, <-chan struct{}) {
	v := i.engine.View()
	defer v.End()
	e := v.Entry(id)
	switch {
	case e == nil:
		return nil, nil
	case e.Launch != launch:
		return e.Journal.After(after, launch), nil
	default:
		return e.Journal.After(after, launch), e.Changed()
	}
}
