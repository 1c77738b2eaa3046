package environments

import (
	"context"

	"slipway/hubapi"
	"slipway/images/records"
	"slipway/internal/errs"
	"slipway/spawner"
)

// compare compares an environment's tree with that of the session which it was frozen from, where that still is and is
// the caller's.
func (f *Service) compare(ctx context.Context, c spawner.Caller, e records.Environment) hubapi.TreeCheck {
	out := hubapi.TreeCheck{First: []string{}}
	if out.Why = f.comparable(ctx, c, e); out.Why != "" {
		return out
	}
	source, done, err := f.capture(ctx, spawner.ID(e.FromSession), func(hubapi.Progress) {})
	if err != nil {
		out.Why = "the session's tree cannot be read: " + f.plainly(err, e)
		return out
	}
	defer done()
	r, err := f.library.Compare(ctx, e, source, nil)
	if err != nil {
		out.Why = f.plainly(err, e)
		return out
	}
	out.Session, out.Changed, out.Paths, out.Differences, out.First = e.FromSession, r.Changed, r.Paths, r.Differences, r.First
	if r.Changed && r.Differences > 0 {
		out.Why = "the session has changed since it was frozen, so these may be its changes; freeze again to be sure"
	}
	return out
}

// plainly says what is wrong to a user. What is of no kind may tell of the host, and is only logged.
func (f *Service) plainly(err error, e records.Environment) string {
	if errs.KindOf(err) != errs.Internal {
		return errs.Brief(err)
	}
	f.log.Error(
		"an environment cannot be compared with its session", "environment", e.Digest, "session", e.FromSession,
		"error", err,
	)
	return "the service's log says why"
}

// comparable says why an environment cannot be compared with its session; empty: it can.
func (f *Service) comparable(ctx context.Context, c spawner.Caller, e records.Environment) string {
	v, err := f.callersViewer(c)
	switch {
	case err != nil:
		return err.Error()
	case e.FromSession == "":
		return "it was frozen from no session here"
	case e.Owner != v.Owner:
		return "it was frozen from another user's session"
	}
	w, err := f.cfg.Engine().Get(ctx, c, spawner.ID(e.FromSession))
	switch {
	case errs.Is(err, errs.NotFound):
		return "the session that it was frozen from is gone"
	case err != nil:
		return "its session cannot be looked at: " + f.plainly(err, e)
	case w.Phase == spawner.Pending || w.Phase == spawner.Leased || w.Phase == spawner.Removing:
		return "its session is " + string(w.Phase) + ": it has no file tree now"
	}
	return ""
}
