package spawner

import (
	"context"
	"fmt"
	"io"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// source is where what an app has printed and left is fetched.
type source interface {
	Log(ctx context.Context, from int64, follow bool) (io.ReadCloser, error)
	File(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

// remains are a source that does not grow.
type remains struct{ Remains }

func (r remains) Log(ctx context.Context, from int64, _ bool) (io.ReadCloser, error) {
	return r.Remains.Log(ctx, from)
}

// source gives where to fetch what e has left, and its agent's last word: from the agent itself, or from what came back of it.
func (m *Manager) source(ctx context.Context, e entry, o Observation) (source, control.Status, error) {
	if !e.Remote || o.Existence != Exited {
		return m.cfg.Agents.Agent(e.ID), e.status, nil
	}
	r, err := m.remainsOf(ctx, e)
	if err != nil {
		return nil, control.Status{}, err
	}
	return remains{r}, r.Status(), nil
}

func (m *Manager) remainsOf(ctx context.Context, e entry) (Remains, error) {
	backend, ok := m.backend(e.Backend).(Remote)
	if !ok {
		return nil, errs.New(errs.Unavailable, "backend %s cannot be asked what came back of %s", e.Backend, e.ID)
	}
	return backend.Remains(ctx, e.ID)
}

// tailOf gives the last lines of what an app has printed.
func (m *Manager) tailOf(ctx context.Context, e entry, from source) (string, error) {
	if e.Kind == Job {
		return m.tail(ctx, e.Workload, tailLines) // of the copy here
	}
	r, err := from.Log(ctx, max(0, e.status.LogSize-tailBytes), false)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, 2*tailBytes))
	return lastLines(b, tailLines), err
}

// keepPatience is for how long keeping a session's changes is repeated that does not work, counted from the first try: they may have
// taken long to come back.
const keepPatience = 10 * time.Minute

// save brings here what came back of a run on another host: a session's changes, as an environment from which it starts the next time,
// and the rest of a job's log. Nothing is removed there before it is here.
func (m *Manager) save(ctx context.Context, e entry, o Observation) error {
	r, err := m.remainsOf(ctx, e)
	switch {
	case errs.Is(err, errs.NotFound):
		return m.noteSaved(ctx, e, "", o)
	case err != nil:
		return err
	case e.Kind == Job:
		if err := m.pullLog(ctx, e.ID, remains{r}, false); err != nil && !hopeless(err) {
			return err
		}
		return m.noteSaved(ctx, e, "", o)
	}
	since := m.keepingSince(e.ID)
	digest, err := m.keepChanges(ctx, e, r)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errs.Is(err, errs.NotFound):
		return m.noteSaved(ctx, e, "", o)
	case err != nil && !hopeless(err) && !errs.Is(err, errs.OverQuota) && time.Since(since) < keepPatience:
		m.relay(e.ID, "Your changes cannot be kept yet; trying again", 0)
		return err
	case err != nil:
		return m.noteUnkept(ctx, e, err)
	default:
		return m.noteSaved(ctx, e, digest, o)
	}
}

// keepingSince gives when it was first tried to keep what came back of a session.
func (m *Manager) keepingSince(id ID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.work[id]
	if now == nil {
		return time.Now()
	}
	if now.keeping.IsZero() {
		now.keeping = time.Now()
	}
	return now.keeping
}

func (m *Manager) keepChanges(ctx context.Context, e entry, r Remains) (digest string, err error) {
	changes, err := r.Changes(ctx)
	if err != nil {
		return "", err
	}
	defer changes.Close()
	m.relay(e.ID, "Keeping your changes", 0)
	digest, err = m.cfg.Keep(ctx, e.runsIn(), changes)
	if err != nil && errs.Is(err, errs.NotFound) { // it is not the changes that are not there
		return "", fmt.Errorf("keep the changes: %v", err)
	}
	return digest, err
}

// noteSaved notes that what a run has left is here. digest is the environment that holds a session's changes; empty: none came back.
func (m *Manager) noteSaved(ctx context.Context, e entry, digest string, o Observation) error {
	_, err := m.change(ctx, e.ID, e.Rev, func(e *entry) {
		e.Saved, e.Unkept, e.keeping = true, "", time.Time{}
		if digest != "" {
			e.Kept = digest
		}
		if lost := digest == "" && e.Kind != Job && !e.Up.IsZero() && e.Outcome != nil; lost {
			out := *e.Outcome
			out.Reason += "; what was changed in it since it started has not come back"
			e.Outcome = &out
		}
	})
	return err
}

// noteUnkept has a session end whose changes cannot be kept now. They stay where they are until it is started again.
func (m *Manager) noteUnkept(ctx context.Context, e entry, why error) error {
	m.log.Warn("the changes of a session cannot be kept", "id", e.ID, "owner", e.Owner, "err", why)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev {
		return nil
	}
	out := outcomeOf(fmt.Errorf("what was changed in it could not be kept: %w", why))
	if e.Outcome != nil && e.Phase == Stopping {
		out.Reason = e.Outcome.Reason + "; " + out.Reason
	}
	if out.Remedy != "" {
		out.Remedy += ", then start it again: "
	}
	out.Remedy += "nothing is lost yet, and the next start tries again"
	return m.changeLocked(ctx, now, func(e *entry) {
		e.Unkept, e.keeping = why.Error(), time.Time{}
		e.finish(out)
	})
}
