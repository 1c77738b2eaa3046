//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/signing"
	"slipway/internal/agent/control"
	"slipway/internal/cli/render"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/version"
	"slipway/spawner"
	"slipway/spawner/docker"
	"slipway/spawner/engine"
)

// freezerConfig is what a freezer needs.
type freezerConfig struct {
	Site config.Config
	Keys *signing.Keys
	// Account returns what a hub's user is on this host.
	Account func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	// Principal returns the word by which a hub's user owns environments.
	Principal func(hub string, user spawner.User) string
	// GroupsOf returns the groups in which a user shares environments.
	GroupsOf func(hub string, user spawner.User) []string
	// QuotasOf returns what bounds the environments of a principal.
	QuotasOf func(principal string) []images.Quota
	// Try runs a command in an environment.
	Try func(ctx context.Context, t images.Trial) ([]byte, error)
	// Changes returns what asks the agent of a session on another host for what it has changed.
	Changes func(id spawner.ID) func(ctx context.Context, r control.ChangesRequest) (io.ReadCloser, error)
	Logger  *slog.Logger
}

// freezer joins the engine, which knows sessions, with the library, which knows trees. It is the one place where the
// two meet.
type freezer struct {
	cfg     freezerConfig
	log     *slog.Logger
	library *images.Library
	// capture returns a session's file tree, and what removes it again where it had to be copied.
	capture func(ctx context.Context, id spawner.ID, tell func(hubapi.Progress)) (source images.Source, done func(), err error)

	places places   // where environments go beside the library
	turns  turns    // of what reads whole environments
	bases  sync.Map // digests of environments by ids of images

	// Set by attach.
	docker *docker.Backend
	engine *engine.Manager
	// life ends with the service: a freeze outlives the request that asked for it.
	life context.Context
}

// openFreezer opens the environments. Sessions can be frozen once attach was called.
func openFreezer(c freezerConfig) (*freezer, error) {
	f := &freezer{cfg: c, log: c.Logger}
	f.capture = f.captured
	e := f.cfg.Site.Environments
	var err error
	f.library, err = images.Open(images.Config{
		Dir: f.path("environments"), Logger: f.log, Strip: e.Strip, Keys: c.Keys, Version: version.Release, Quotas: f.quotas, MaxFiles: e.MaxFiles,
		Keep: time.Duration(e.Keep), InUse: f.inUse, Try: c.Try, Fetch: f.fetcher(),
	})
	if err != nil {
		return nil, err
	}
	if err := f.openPlaces(); err != nil {
		return nil, errors.Join(err, f.library.Close())
	}
	return f, nil
}

func (f *freezer) path(parts ...string) string {
	return filepath.Join(append([]string{f.cfg.Site.DataDir}, parts...)...)
}

// Freeze makes an environment out of a session that the caller may change.
func (f *freezer) Freeze(
	ctx context.Context, c spawner.Caller, id spawner.ID, r hubapi.FreezeRequest, progress func(hubapi.Progress),
) (hubapi.Environment, error) {
	w, err := f.engine.Get(ctx, c, id)
	if err != nil {
		return hubapi.Environment{}, err
	}
	switch {
	case w.Kind == spawner.Job:
		return hubapi.Environment{}, errs.New(errs.Invalid, "%s is a job", id).With("its environment is frozen already: " + w.Spec.Environment)
	case w.Phase == spawner.Pending || w.Phase == spawner.Leased || w.Phase == spawner.Removing:
		return hubapi.Environment{}, errs.New(errs.Conflict, "session %s is %s: it has no file tree", id, w.Phase).With("wait until it runs")
	}
	source, done, err := f.treeOf(ctx, w, progress)
	if err != nil {
		return hubapi.Environment{}, fmt.Errorf("find the file tree of %s: %w", id, err)
	}
	defer done()
	source.Idle = !w.Phase.Active()
	begun := time.Now()
	e, err := f.library.Freeze(f.life, images.Request{
		Owner: f.cfg.Principal(w.Hub, w.Owner), Name: r.Name, Tag: r.Tag, Note: r.Note, Key: string(id), Source: source,
		Kind: string(w.Kind), User: string(w.Owner), Allow: r.Allow, Use: images.Use{Imported: r.Imported, CVMFS: r.CVMFS},
		Progress: func(p images.Progress) { progress(wireProgress(p, source.Idle)) },
	})
	if err != nil {
		return hubapi.Environment{}, err
	}
	out := f.wire(e, e.Owner)
	out.Unchanged = e.Unchanged || e.Created.Before(begun) // it was looked through anew, and came to what had been frozen before
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
func (f *freezer) treeOf(ctx context.Context, w spawner.Workload, tell func(hubapi.Progress)) (source images.Source, done func(), err error) {
	if !w.Remote {
		return f.capture(f.life, w.ID, tell)
	}
	tell(hubapi.Progress{Stage: "fetching", Percent: -1, Message: "Asking for the session's changes, after any other freeze of yours"})
	end, err := f.turns.wait(ctx, "changes of "+f.cfg.Principal(w.Hub, w.Owner)) // while others of these turns go on
	if err != nil {
		return images.Source{}, nil, err
	}
	source, remove, err := f.capture(f.life, w.ID, tell)
	if err != nil {
		end()
		return images.Source{}, nil, err
	}
	return source, func() { remove(); end() }, nil
}

// find returns the digest of an environment that a hub's user may use, and notes that it is wanted. owner/name:tag is
// another's.
func (f *freezer) find(_ context.Context, hub string, user spawner.User, ref string) (digest string, err error) {
	e, err := f.lookAs(f.viewer(hub, user), hub, ref)
	if err == nil {
		err = e.RunsHere()
	}
	if err != nil {
		return "", err
	}
	return e.Digest, f.library.Touch(e.Owner, e.Digest)
}

// thaw returns what a session starts from.
func (f *freezer) thaw(ctx context.Context, digest string) (spawner.Thaw, error) {
	from, err := f.library.Thaw(ctx, digest)
	return spawner.Thaw{Digest: digest, Image: from.Image, Fill: from.Fill}, err
}

// viewer says as whom a hub's user looks for environments.
func (f *freezer) viewer(hub string, user spawner.User) images.Viewer {
	return images.Viewer{Owner: f.cfg.Principal(hub, user), Groups: f.cfg.GroupsOf(hub, user)}
}

// wireProgress shows a step of a freeze; idle: of a session that does not run.
func wireProgress(p images.Progress, idle bool) hubapi.Progress {
	percent := p.Percent
	if p.Total == 0 && percent == 0 {
		percent = -1
	}
	return hubapi.Progress{Stage: string(p.Stage), Percent: percent, Files: p.Files, Bytes: p.Bytes, Message: stageMessage(p, idle)}
}

// stageMessage tells a stage to people.
func stageMessage(p images.Progress, idle bool) string {
	switch p.Stage {
	case images.Scanning:
		return "looking for changes"
	case images.Preparing:
		return "converting the base image, once for all who use it" + pauseWords(p)
	case images.Reading, images.Settling:
		if idle {
			return "storing the changes"
		}
		return storingWords(p)
	case images.Indexing:
		return "writing the tables"
	case images.Packing:
		return "packing the whole tree"
	case images.Writing:
		return "finishing the image"
	default:
		return string(p.Stage)
	}
}

func storingWords(p images.Progress) string {
	if p.Stage == images.Settling {
		return "storing what has changed meanwhile, the session stands still"
	}
	return "storing the changes, the session goes on" + pauseWords(p)
}

// pauseWords tells ahead of a pause that is long enough to be felt.
func pauseWords(p images.Progress) string {
	if p.Pause == 0 {
		return ""
	}
	return fmt.Sprintf("; then it will stand still for about %.0f s: %s files", p.Pause.Seconds(), render.Grouped(p.Changed))
}
