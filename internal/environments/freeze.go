package environments

import (
	"context"
	"fmt"
	"time"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/progress"
	"slipway/images/records"
	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
)

// Freeze makes an environment out of a session that the caller may change.
func (f *Service) Freeze(
	ctx context.Context, c spawner.Caller, id spawner.ID, r hubapi.FreezeRequest, report func(hubapi.Progress),
) (hubapi.Environment, error) {
	w, err := f.cfg.Engine().Get(ctx, c, id)
	if err != nil {
		return hubapi.Environment{}, err
	}
	switch {
	case w.Kind.Batch():
		return hubapi.Environment{}, errs.New(errs.Invalid, "%s is a job", id).
			With("its environment is frozen already: " + w.Spec.Environment)
	case w.Phase == spawner.Pending || w.Phase == spawner.Leased || w.Phase == spawner.Removing:
		return hubapi.Environment{}, errs.New(errs.Conflict, "session %s is %s: it has no file tree", id, w.Phase).
			With("wait until it runs")
	}
	leave, ok := f.freezes.Enter()
	if !ok {
		return hubapi.Environment{}, errs.New(errs.Unavailable, "freeze %s: the service is ending", id).
			With("freeze again in a moment")
	}
	defer leave()
	source, done, err := f.treeOf(ctx, w, report)
	if err != nil {
		return hubapi.Environment{}, fmt.Errorf("find the file tree of %s: %w", id, err)
	}
	defer done()
	source.Idle = !w.Phase.Active()
	begun := time.Now()
	e, err := f.library.Freeze(f.freezes.Context(), images.Request{
		Owner: f.cfg.Principal(w.Hub, w.Owner), Name: r.Name, Tag: r.Tag, Note: r.Note, Key: string(id), Source: source,
		Kind: string(w.Kind), User: string(w.Owner), Allow: r.Allow,
		Use:      records.Use{Imported: r.Imported, CVMFS: r.CVMFS},
		Progress: func(p progress.Progress) { report(wireProgress(p, source.Idle)) },
	})
	if err != nil {
		return hubapi.Environment{}, err
	}
	out := f.wire(e, e.Owner)
	// It was looked through anew, and came to what had been frozen before.
	out.Unchanged = e.Unchanged || e.Created.Before(begun)
	if !e.Unchanged {
		out.Secrets = e.Manifest.Allowed
	}
	if u, err := f.library.Usage(ctx, e.Owner); err == nil { // it is frozen, whatever the quotas say
		out.Warnings = u.Warnings
	}
	return out, nil
}

// treeOf returns a session's file tree, as capture does, for as long as the service runs. What sessions on other hosts
// have changed comes for one freeze of an owner at a time, for it takes room on this host's disk; who waits for that is
// let go with ctx.
func (f *Service) treeOf(
	ctx context.Context, w spawner.Workload, tell func(hubapi.Progress),
) (source images.Source, done func(), err error) {
	if !w.Remote {
		return f.capture(f.freezes.Context(), w.ID, tell)
	}
	tell(hubapi.Progress{
		Stage: "fetching", Percent: -1, Message: "Asking for the session's changes, after any other freeze of yours",
	})
	end, err := f.turns.wait(ctx, "changes of "+f.cfg.Principal(w.Hub, w.Owner)) // while others of these turns go on
	if err != nil {
		return images.Source{}, nil, err
	}
	source, remove, err := f.capture(f.freezes.Context(), w.ID, tell)
	if err != nil {
		end()
		return images.Source{}, nil, err
	}
	return source, func() { remove(); end() }, nil
}

// wireProgress shows a step of a freeze; idle: of a session that does not run.
func wireProgress(p progress.Progress, idle bool) hubapi.Progress {
	percent := p.Percent
	if p.Total == 0 && percent == 0 {
		percent = -1
	}
	return hubapi.Progress{
		Stage: string(p.Stage), Percent: percent, Files: p.Files, Bytes: p.Bytes, Message: stageMessage(p, idle),
	}
}

// stageMessage tells a stage to people.
func stageMessage(p progress.Progress, idle bool) string {
	switch p.Stage {
	case progress.Scanning:
		return "looking for changes"
	case progress.Preparing:
		return "converting the base image, once for all who use it" + pauseWords(p)
	case progress.Reading, progress.Settling:
		if idle {
			return "storing the changes"
		}
		return storingWords(p)
	case progress.Indexing:
		return "writing the tables"
	case progress.Packing:
		return "packing the whole tree"
	case progress.Writing:
		return "finishing the image"
	default:
		return string(p.Stage)
	}
}

func storingWords(p progress.Progress) string {
	if p.Stage == progress.Settling {
		return "storing what has changed meanwhile, the session stands still"
	}
	return "storing the changes, the session goes on" + pauseWords(p)
}

// pauseWords tells ahead of a pause that is long enough to be felt.
func pauseWords(p progress.Progress) string {
	if p.Pause == 0 {
		return ""
	}
	return fmt.Sprintf(
		"; then it will stand still for about %.0f s: %s files", p.Pause.Seconds(), units.Grouped(p.Changed),
	)
}
