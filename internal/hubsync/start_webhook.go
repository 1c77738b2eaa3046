package hubsync

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/agent/control"
	"slipway/internal/backoff"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
)

const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 15 * time.Second
	lastWords  = 2 * time.Minute // for how long the end of a start is told to a Hub that is down
	// for how long a Hub may find out by itself that a start has failed: it polls every 30 s
	untilPolled = 40 * time.Second
)

// tokenName is the variable with the token of a session's own server.
const tokenName = "JUPYTERHUB_API_TOKEN"

// StartWebhook tells Hubs what happens in the starts that they asked for. A Hub that waits to be told shows nothing
// else. The engine calls Tell, and waits for it when it ends.
type StartWebhook struct {
	Hubs   map[string]Hub // by name
	Engine Engine
	Logger *slog.Logger
}

// Tell tells of the start that w is in, from its first event on and in order, until its end has been told, the Hub has
// refused, or ctx ends. A Hub that cannot follow misses steps between, never the last one.
func (h *StartWebhook) Tell(ctx context.Context, w spawner.Workload, secrets control.Env) {
	log := h.Logger.With("id", w.ID, "hub", w.Hub, "owner", w.Owner)
	to, token := h.Hubs[w.Hub], tokenOf(w, secrets)
	if to == nil || token.Empty() {
		log.Warn("nobody can be told of the start: the request names no " + tokenName)
		return
	}
	var reader sync.WaitGroup
	defer reader.Wait()
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	events, err := h.Engine.Events(ctx, spawner.Caller{System: true}, w.ID, w.Launch, 0)
	if err != nil {
		log.Debug("nothing is known of the start any more", "err", err)
		return
	}
	box := newBox()
	reader.Go(func() {
		defer box.end()
		for e := range events {
			box.put(e)
		}
	})
	(&tale{StartWebhook: h, w: w, to: to, token: token, box: box, log: log}).tell(ctx)
}

func tokenOf(w spawner.Workload, secrets control.Env) secret.Text {
	if t := secrets[tokenName]; t != "" {
		return secret.New(t)
	}
	return secret.New(w.Spec.Env[tokenName])
}

// tale is what is told of one start.
type tale struct {
	*StartWebhook
	w     spawner.Workload
	to    Hub
	token secret.Text
	box   *box
	log   *slog.Logger

	reasoned bool // the Hub has been told why the start failed, and not yet that it did
}

// tell empties the box.
func (t *tale) tell(ctx context.Context) {
	failed, percent, odd := backoff.Backoff{First: firstRetry, Most: lastRetry}, 0, false
	for {
		e, ok := t.box.first(ctx)
		if !ok {
			return
		}
		percent = max(percent, e.Percent)
		err := t.post(ctx, t.compose(ctx, e, percent))
		switch {
		case ctx.Err() != nil:
			return
		case errs.Is(err, errs.Unavailable) || errs.Is(err, errs.NoCapacity):
			if t.box.endedFor(lastWords) {
				t.log.Warn(
					"the Hub is not told how the start came out: it does not answer", "err", err, "cause", cause(err),
				)
				return
			}
			if !failed.Wait(ctx) {
				return
			}
			continue
		case errs.Is(err, errs.Invalid): // this event; the Hub's administrator may filter some
			if !odd {
				t.log.Info("the Hub does not take an event of the start", "err", err)
			}
			odd = true
		case err != nil:
			t.log.Warn("the Hub does not want to be told of the start", "err", err)
			return
		}
		t.box.done(e)
		failed.Reset()
	}
}

// post tells of one event. The Hub never shows the event that says that a start failed, and takes the server for ready
// for a moment when it gets it. So it is told why as of a start that goes on, and finds by its own poll that the
// session has ended; only one that does not is told that the start failed.
func (t *tale) post(ctx context.Context, e hub.Event) error {
	if e.Failed && !t.reasoned {
		reason := e
		reason.Failed, reason.Percent = false, 99
		if err := t.send(ctx, reason); err != nil && !errs.Is(err, errs.Invalid) {
			return err
		}
		t.reasoned = true
		if !clock.Sleep(ctx, untilPolled) {
			return ctx.Err()
		}
	}
	if e.Failed && !t.last(ctx) {
		return nil
	}
	return t.send(ctx, e)
}

// last reports whether no other start of the session has been asked for since: the Hub would take its end for that
// one's.
func (t *tale) last(ctx context.Context) bool {
	now, err := t.Engine.Get(ctx, spawner.Caller{System: true}, t.w.ID)
	return err == nil && now.Launch == t.w.Launch
}

func (t *tale) send(ctx context.Context, e hub.Event) error {
	return t.to.PostEvent(ctx, string(t.w.Owner), t.w.Name, t.token, e)
}

// compose makes the Hub's event. The end of a start is told as it stands now: with the reason, the remedy and the last
// lines.
func (t *tale) compose(ctx context.Context, e spawner.Event, percent int) hub.Event {
	if !e.Final {
		return step(e.Message, min(percent, 99))
	}
	now, err := t.Engine.Get(ctx, spawner.Caller{System: true}, t.w.ID)
	switch o := now.Outcome; {
	case err != nil || now.Launch != t.w.Launch:
		return ending(e)
	case now.Phase == spawner.Running:
		return step(e.Message, 100)
	case o == nil || o.Reason == "":
		return failure(e.Message, "", "")
	default:
		return failure(o.Reason, o.Remedy, o.Tail)
	}
}

// ending is the end of a start of which no more is known than its event.
func ending(e spawner.Event) hub.Event {
	if e.Failed {
		return failure(e.Message, "", "")
	}
	return step(e.Message, 100)
}
