package inspect

import (
	"bytes"
	"context"
	"io"
	"slices"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// Files lists a job's output files.
func (i *Inspector) Files(ctx context.Context, c spawner.Caller, id spawner.ID) ([]control.File, error) {
	if _, err := i.engine.Get(ctx, c, id); err != nil {
		return nil, err
	}
	return i.engine.JobFiles().Files(id)
}

// File opens one of a job's output files, and returns its size. The caller closes it.
func (i *Inspector) File(
	ctx context.Context, c spawner.Caller, id spawner.ID, name string,
) (io.ReadCloser, int64, error) {
	if _, err := i.engine.Get(ctx, c, id); err != nil {
		return nil, 0, err
	}
	return i.engine.JobFiles().File(id, name)
}

// Log opens a workload's output from byte from on: a job's from the copy here, a session's from its agent. A job's that
// is shorter than that is another than the reader has had: that of a later try, which is read from its start. With
// follow it goes on until the workload has ended. The caller closes it.
func (i *Inspector) Log(
	ctx context.Context, c spawner.Caller, id spawner.ID, from int64, follow bool,
) (io.ReadCloser, error) {
	w, err := i.engine.Get(ctx, c, id)
	switch {
	case err != nil:
		return nil, err
	case w.Kind.Session():
		return i.sessionLog(ctx, w, from, follow)
	case !follow:
		return i.engine.JobFiles().OpenLog(id, from)
	default:
		return i.engine.JobFiles().FollowLog(ctx, id, from, func() (<-chan struct{}, bool) {
			e, ok := i.engine.Snapshot(id)
			return e.Changed(), ok && e.Phase.Active()
		})
	}
}

func (i *Inspector) sessionLog(
	ctx context.Context, w spawner.Workload, from int64, follow bool,
) (io.ReadCloser, error) {
	if w.Phase.Active() && w.Phase != spawner.Pending {
		return i.engine.Agent(w.ID).Log(ctx, from, follow)
	}
	if w.Outcome != nil {
		return io.NopCloser(bytes.NewBufferString(w.Outcome.Tail)), nil
	}
	return io.NopCloser(&bytes.Buffer{}), nil
}

// Tail returns the last lines of a workload's output.
func (i *Inspector) Tail(ctx context.Context, c spawner.Caller, id spawner.ID, lines int) (string, error) {
	w, err := i.engine.Get(ctx, c, id)
	if err != nil {
		return "", err
	}
	if w.Kind.Batch() {
		return i.engine.JobFiles().TailLog(id, lines)
	}
	e, _ := i.engine.Snapshot(id)
	r, err := i.sessionLog(ctx, w, max(0, e.Status.LogSize-jobfiles.TailBytes), false)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return jobfiles.Tail(r, lines)
}

// Progress returns what a job's payload has last said of how far it is; nil: nothing.
func (i *Inspector) Progress(id spawner.ID) *control.Progress {
	v := i.engine.View()
	defer v.End()
	e := v.Entry(id)
	switch {
	case e == nil:
		return nil
	case e.Outcome != nil:
		return e.Outcome.Progress
	default:
		return e.Reported
	}
}

// Cell is the name of the input file that has a notebook's cell, and mostCode bounds what is shown of code.
const (
	Cell     = "cell.py"
	mostCode = 64 << 10
)

// Code returns the program that a job runs, with its name: a notebook's cell, or the input file that its command names.
// Its owner alone reads it, for there may be secrets in it. Empty: it has none, or none that is text.
func (i *Inspector) Code(ctx context.Context, c spawner.Caller, id spawner.ID) (name, text string, err error) {
	w, err := i.engine.Get(ctx, c, id)
	if err != nil || w.Principal() != c.Principal() {
		return "", "", err
	}
	for _, word := range append([]string{Cell}, w.Spec.Argv...) {
		if slices.Contains(w.Spec.Inputs, word) {
			text, err := i.engine.JobFiles().InputText(w, word, mostCode)
			return word, text, err
		}
	}
	return "", "", nil
}
