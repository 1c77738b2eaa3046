package engine

import (
	"bytes"
	"context"
	"io"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// tailLines is how many last lines of its output an outcome keeps.
const tailLines = 40

// Files lists a job's output files.
func (m *Manager) Files(ctx context.Context, c spawner.Caller, id spawner.ID) ([]control.File, error) {
	if _, err := m.Get(ctx, c, id); err != nil {
		return nil, err
	}
	return m.files.Files(id)
}

// File opens one of a job's output files, and returns its size. The caller closes it.
func (m *Manager) File(ctx context.Context, c spawner.Caller, id spawner.ID, name string) (io.ReadCloser, int64, error) {
	if _, err := m.Get(ctx, c, id); err != nil {
		return nil, 0, err
	}
	return m.files.File(id, name)
}

// Log opens a workload's output from byte from on: a job's from the copy here, a session's from its agent. A job's that
// is shorter than that is another than the reader has had: that of a later try, which is read from its start. With
// follow it goes on until the workload has ended. The caller closes it.
func (m *Manager) Log(ctx context.Context, c spawner.Caller, id spawner.ID, from int64, follow bool) (io.ReadCloser, error) {
	w, err := m.Get(ctx, c, id)
	switch {
	case err != nil:
		return nil, err
	case w.Kind != spawner.Job:
		return m.sessionLog(ctx, w, from, follow)
	case !follow:
		return m.files.OpenLog(id, from)
	default:
		return m.files.FollowLog(ctx, id, from, func() (<-chan struct{}, bool) {
			e, ok := m.Snapshot(id)
			return e.changed, ok && e.Phase.Active()
		})
	}
}

func (m *Manager) sessionLog(ctx context.Context, w spawner.Workload, from int64, follow bool) (io.ReadCloser, error) {
	if w.Phase.Active() && w.Phase != spawner.Pending {
		return m.cfg.Agents.Agent(w.ID).Log(ctx, from, follow)
	}
	if w.Outcome != nil {
		return io.NopCloser(bytes.NewBufferString(w.Outcome.Tail)), nil
	}
	return io.NopCloser(&bytes.Buffer{}), nil
}

// Tail returns the last lines of a workload's output.
func (m *Manager) Tail(ctx context.Context, c spawner.Caller, id spawner.ID, lines int) (string, error) {
	w, err := m.Get(ctx, c, id)
	if err != nil {
		return "", err
	}
	return m.tail(ctx, w, lines)
}

func (m *Manager) tail(ctx context.Context, w spawner.Workload, lines int) (string, error) {
	var size int64
	if w.Kind == spawner.Job {
		size = m.files.LogSize(w.ID)
	} else {
		e, _ := m.Snapshot(w.ID)
		size = e.status.LogSize
	}
	r, err := m.Log(ctx, spawner.Caller{User: w.Owner, Hub: w.Hub}, w.ID, max(0, size-jobfiles.TailBytes), false)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return jobfiles.Tail(r, lines)
}
