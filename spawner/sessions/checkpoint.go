package sessions

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/engine"
	"slipway/spawner/jobfiles"
	"slipway/spawner/launch"
)

// keepPatience is for how long keeping a session's changes is repeated that does not work, counted from the first try:
// they may have taken long to come back.
const keepPatience = 10 * time.Minute

// checkpoint makes an environment of what a session has changed on another host, from which it starts the next time.
func (s *Sessions) checkpoint(
	ctx context.Context, e engine.Entry, r spawner.StagedOutput, since time.Time,
) (kept bool, err error) {
	if r == nil {
		return true, s.noteLost(ctx, e, engine.NotBack)
	}
	changes, err := r.Changes(ctx)
	switch {
	case errs.Is(err, errs.NotFound):
		return true, s.noteLost(ctx, e, engine.NotBack)
	case errs.Is(err, errs.Invalid):
		return true, s.noteLost(ctx, e, "what was changed in it since it started is lost: "+diagnosis.Brief(err))
	case err != nil:
		return false, err
	}
	defer changes.Close()
	s.engine.Relay(e.ID, "Keeping your changes", 0)
	digest, err := s.cfg.Keep(ctx, launch.WithEnvironment(e.Workload), changes)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		return true, s.engine.NoteSaved(ctx, e, digest, "")
	case jobfiles.Permanent(err) || errs.Is(err, errs.OverQuota) || time.Since(since) >= keepPatience:
		return true, s.noteUnkept(ctx, e, err)
	default:
		s.engine.Relay(e.ID, "Your changes cannot be kept yet; trying again", 0)
		return false, err
	}
}

// noteLost notes that what a session had changed is not to be had, and tells its user.
func (s *Sessions) noteLost(ctx context.Context, e engine.Entry, lost string) error {
	if e.Up.IsZero() {
		return s.engine.NoteSaved(ctx, e, "", "")
	}
	if e.Outcome == nil { // it begins anew
		s.engine.Relay(e.ID, "What"+strings.TrimPrefix(lost, "what"), 0)
	}
	return s.engine.NoteSaved(ctx, e, "", lost)
}

// noteUnkept has a session end whose changes cannot be kept now. They stay where they are until it is started again.
func (s *Sessions) noteUnkept(ctx context.Context, e engine.Entry, why error) error {
	s.log.Warn("the changes of a session cannot be kept", "id", e.ID, "owner", e.Owner, "err", why)
	tx := s.engine.Begin()
	defer tx.End()
	now := tx.Unchanged(e)
	if now == nil {
		return nil
	}
	out := diagnosis.FromError(fmt.Errorf("what was changed in it could not be kept: %w", why))
	if e.Outcome != nil && e.Phase == spawner.Stopping {
		out.Reason = e.Outcome.Reason + "; " + out.Reason
	}
	if out.Remedy != "" {
		out.Remedy += ", then start it again: "
	}
	out.At = time.Now()
	out.Remedy += "nothing is lost yet, and the next start tries again; “Start fresh” discards all that you have changed"
	return tx.Change(ctx, now, func(e *engine.Entry) {
		e.Unkept, e.Keeping = why.Error(), engine.Attempts{}
		e.Finish(out)
	})
}

// HTCondor 23.9 brings nothing back of a job whose worker it has lost touch with for a minute and found again: the
// shadow refuses the key for the transfer that it has given to the starter ("transkey is invalid!" in its log, "Failed
// to receive GoAhead message" in the starter's), five times, and has the job evicted then. The link to the agent is as
// good as ever.

// checkpointViaAgent keeps what a session has changed before it is ended, if that may not come back by way of its batch
// system, and its agent can be asked for it. Where that does not work, it is ended as any other.
func (s *Sessions) checkpointViaAgent(ctx context.Context, e engine.Entry) bool {
	if !e.Seen.Shaken || e.Up.IsZero() || !e.Asked.IsZero() || e.Status.State == "" {
		return false
	}
	err := s.keepViaAgent(ctx, e)
	if err != nil {
		s.log.Warn(
			"the changes of a session cannot be had from its agent; its batch system may bring them", "id", e.ID, "err",
			err,
		)
	}
	return err == nil
}

func (s *Sessions) keepViaAgent(ctx context.Context, e engine.Entry) error {
	changes, err := s.engine.Agent(e.ID).Changes(ctx, control.ChangesRequest{})
	if err != nil {
		return fmt.Errorf("ask the agent for the changes: %w", err)
	}
	defer changes.Close()
	s.engine.Relay(e.ID, "Keeping your changes", 0)
	digest, err := s.cfg.Keep(ctx, launch.WithEnvironment(e.Workload), changes)
	if err != nil {
		return fmt.Errorf("keep the changes: %w", err)
	}
	return s.engine.NoteSaved(ctx, e, digest, "")
}

// findBase saves from which environment a session is to start on another host: the one that holds its changes, the one
// that it was asked for with, or the one that is its image.
func (s *Sessions) findBase(ctx context.Context, e engine.Entry) error {
	from := cmp.Or(e.Kept, e.Spec.Environment)
	if from == "" {
		var err error
		from, err = s.cfg.Base(
			ctx, e.Spec.Image, func(message string, percent int) { s.engine.Relay(e.ID, message, percent/5) },
		)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errs.Is(err, errs.Unavailable):
			s.engine.Relay(
				e.ID, "Its image cannot be made ready for other hosts now; trying again. "+
					"If this lasts, tell your administrator", 0,
			)
			return err
		case err != nil:
			return s.engine.Finish(
				ctx, e, diagnosis.FromError(fmt.Errorf("make an environment of image %s: %w", e.Spec.Image, err)),
			)
		}
	}
	_, err := s.engine.Change(ctx, e, func(e *engine.Entry) { e.From = from })
	return err
}

// lacksEnvironments reports whether a backend runs sessions in environments alone, and this service has none for one
// that was asked for with environment.
func (s *Sessions) lacksEnvironments(backend, environment string) bool {
	return s.engine.IsRemote(backend) && (!s.engine.RunsEnvironments() || s.cfg.Keep == nil ||
		s.cfg.Base == nil && environment == "")
}
