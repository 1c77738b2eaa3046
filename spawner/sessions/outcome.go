package sessions

import (
	"context"
	"fmt"
	"time"

	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/engine"
	"slipway/spawner/jobfiles"
	"slipway/spawner/launch"
)

// exited returns the outcome of a session whose agent says that its app has exited.
func (s *Sessions) exited(e engine.Entry, o spawner.Observation) spawner.Outcome {
	out := diagnosis.OfExit(e.Status, o)
	out.Failed = e.Phase != spawner.Running || out.ExitCode != 0
	diagnosis.AddReason(&out, o)
	switch {
	case e.Kind == spawner.Code && e.Phase != spawner.Running && out.ExitCode == diagnosis.NotThere:
		out.Reason = fmt.Sprintf(
			"the image %s has no VS Code: there is no program %s in it", e.Spec.Image, launch.CodeServer,
		)
		out.Remedy = "choose an image that has it, or ask your administrator for one"
	case out.Reason == "" && out.Failed:
		out.Reason = diagnosis.ExitWords(e.Kind, out.ExitCode)
		if e.Kind.HubServer() && e.Phase != spawner.Running {
			out.Remedy = diagnosis.StartFresh
		}
	}
	return out
}

// collect adds the last lines to a session's outcome.
func (s *Sessions) collect(
	ctx context.Context, e engine.Entry, from jobfiles.Source, _ time.Time, o *spawner.Outcome,
) (kept bool, err error) {
	// Without them the outcome is still true.
	o.Tail, _ = tail(ctx, e, from)
	return true, nil
}

// tail returns the last lines of what an app has printed.
func tail(ctx context.Context, e engine.Entry, from jobfiles.Source) (string, error) {
	r, err := from.Log(ctx, max(0, e.Status.LogSize-jobfiles.TailBytes), false)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return jobfiles.Tail(r, engine.TailLines)
}

// ailment adds to why a session failed what is known of its home: it may be full.
func (s *Sessions) ailment(e engine.Entry, o spawner.Outcome) spawner.Outcome {
	if s.cfg.Ailment == nil {
		return o
	}
	why, remedy := s.cfg.Ailment(e.Workload)
	if why != "" {
		o.Reason, o.Remedy = o.Reason+"; "+why, remedy
	}
	return o
}

// canceled returns the outcome of a session that its owner has ended.
func canceled(e engine.Entry) spawner.Outcome {
	o := spawner.Outcome{Canceled: true, ExitCode: 143, Reason: "stopped by its owner"}
	if e.Phase != spawner.Running {
		o.Reason = "its start was canceled"
	}
	return o
}
