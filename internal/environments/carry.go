package environments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/changeset"
	"slipway/images/progress"
	"slipway/images/records"
	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Two kinds of environments are nobody's to see: those of plain images, from which remote sessions are started, and
// those that carry what a remote session has changed to its next start. They lie in the library under words that are no
// user's: where a user's word begins with @, a realm and a slash follow, and no realm has a : or an =.
const (
	basesOwner    = "@:"
	carriedPrefix = "@="
)

// carriedOf returns the word by which a user's sessions own what they carry.
func carriedOf(principal string) string { return carriedPrefix + principal }

// quotas returns what bounds the environments of an owner of the library. What sessions carry is bounded with what
// their users have.
func (f *Service) quotas(owner string) []records.Quota {
	if owner == basesOwner {
		return nil
	}
	list := f.cfg.QuotasOf(strings.TrimPrefix(owner, carriedPrefix))
	for i, q := range list {
		list[i].Owners = withCarried(q.Owners)
	}
	return list
}

// withCarried adds to principals those of what their sessions carry.
func withCarried(principals []string) []string {
	out := slices.Clone(principals)
	for _, p := range principals {
		out = append(out, carriedOf(p))
	}
	return out
}

// hidden says whether an environment is nobody's to see.
func hidden(e records.Environment) bool {
	return e.Owner == basesOwner || strings.HasPrefix(e.Owner, carriedPrefix)
}

// Base returns the environment of an image without changes, from which remote sessions start: it is made once for each
// image. Where the engine does not have the image any more, it is the last one that was made of it.
func (f *Service) Base(
	ctx context.Context, image string, tell func(message string, percent int),
) (digest string, err error) {
	source, err := f.cfg.Trees().Layers(ctx, image, tell)
	if errs.Is(err, errs.Missing) || errs.Is(err, errs.NotFound) {
		return f.lastBase(image, err)
	}
	if err != nil {
		return "", err
	}
	if digest, ok := f.knownBase(ctx, source.Base.Digest); ok {
		return digest, nil
	}
	source.Idle = true
	dir, err := os.MkdirTemp(f.path("fetch"), "")
	if err != nil {
		return "", err
	}
	source.Upper = filepath.Join(dir, "upper")
	if err = nothingOver(source.Layers[0], source.Upper); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	e, err := f.library.Freeze(ctx, images.Request{
		Owner: basesOwner, Key: source.Base.Digest, Source: source, Carried: true,
		Progress: func(p progress.Progress) {
			tell("The image is being made ready for workers: "+stageMessage(p, true), percentOf(p))
		},
	})
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return "", fmt.Errorf("make the image %s ready for workers: %w", image, err)
	}
	f.bases.Store(source.Base.Digest, e.Digest)
	return e.Digest, f.library.Records.Touch(basesOwner, e.Digest)
}

// knownBase returns what this service has made of an image before, if it is whole: each start would wait some tenths of
// a second to find by a freeze that nothing has changed.
func (f *Service) knownBase(ctx context.Context, imageID string) (digest string, ok bool) {
	known, ok := f.bases.Load(imageID)
	if !ok {
		return "", false
	}
	digest = known.(string)
	_, err := f.library.Ready(ctx, digest)
	return digest, err == nil && f.library.Records.Touch(basesOwner, digest) == nil
}

func percentOf(p progress.Progress) int { return int(wireProgress(p, true).Percent) }

// nothingOver makes an upper directory without changes. The root of a tree is always the upper one's, so it looks like
// the image's.
func nothingOver(layer, upper string) error {
	var st unix.Stat_t
	if err := unix.Stat(layer, &st); err != nil {
		return fmt.Errorf("look at %s: %w", layer, err)
	}
	if err := os.Mkdir(upper, 0o700); err != nil {
		return err
	}
	at := time.Unix(st.Mtim.Unix())
	return errors.Join(
		os.Chown(upper, int(st.Uid), int(st.Gid)), unix.Chmod(upper, st.Mode&0o7777), os.Chtimes(upper, at, at),
	)
}

// lastBase finds what was made of an image that has gone since.
func (f *Service) lastBase(image string, gone error) (digest string, err error) {
	all, err := f.library.Records.List(basesOwner)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(e records.Environment) bool { return e.Base.Reference == image })
	if i < 0 {
		return "", gone
	}
	return all[i].Digest, f.library.Records.Touch(basesOwner, all[i].Digest)
}

// Keep makes an environment of what a remote session had changed when it ended, over w.Spec.Environment: the next start
// of the session goes on from it. It counts against the quota of the session's user, in the place of the one that was
// kept before.
func (f *Service) Keep(ctx context.Context, w spawner.Workload, changes io.Reader) (digest string, err error) {
	owner := carriedOf(f.cfg.Principal(w.Hub, w.Owner))
	if err := f.letGo(owner, w); err != nil {
		return "", err
	}
	room, err := f.library.Room(ctx, owner, w.Kept)
	if err != nil {
		return "", noRoom(w, err)
	}
	a, err := f.remote(ctx, w, w.Spec.Environment)
	if err != nil {
		return "", err
	}
	a.room, a.carried = room, true
	a.changes = func(context.Context, control.ChangesRequest) (io.ReadCloser, error) {
		return io.NopCloser(changes), nil
	}
	source, done, err := f.captureRemote(ctx, a, func(hubapi.Progress) {})
	if err != nil {
		return "", fmt.Errorf("keep what session %s has changed: %w", w.ID, err)
	}
	defer done()
	source.Idle = true
	e, err := f.library.Freeze(
		ctx, images.Request{Owner: owner, Key: string(w.ID), Source: source, Carried: true, Instead: w.Kept},
	)
	if err != nil {
		return "", noRoom(w, err)
	}
	// An older one that is the same may not have been used for long.
	return e.Digest, f.library.Records.Touch(owner, e.Digest)
}

// noRoom says what to do where a user's quota leaves no room for what her session has changed.
func noRoom(w spawner.Workload, err error) error {
	if full, ok := errors.AsType[*errs.Error](err); ok && full.Kind == errs.OverQuota {
		err = full.With("`slipway envs du` shows what takes how much, and `slipway envs rm` makes room; discard sessions that you do not need")
	}
	return fmt.Errorf("keep what session %s has changed: %w", w.ID, err)
}

// remote describes a session that runs, or ran, on another host from an environment.
func (f *Service) remote(ctx context.Context, w spawner.Workload, environment string) (remoteChanges, error) {
	account, err := f.cfg.Account(ctx, w.Hub, w.Owner)
	if err != nil {
		return remoteChanges{}, err
	}
	nodes := f.cfg.Site.BatchOf(w.Backend)
	mounts := append([]string{"/tmp", "/var/tmp"}, nodes.Binds...)
	if nodes.HomeDirs { // elsewhere the home is among what the session changes
		mounts = append(mounts, account.Home)
	}
	return remoteChanges{
		environment: environment, owner: &changeset.Owner{UID: uint32(account.UID), GID: uint32(account.GID)},
		mounts: mounts,
	}, nil
}

// captureRemoteSession returns the file tree of a remote session: through its agent while it runs, and as it was kept
// when it does not.
func (f *Service) captureRemoteSession(
	ctx context.Context, w spawner.Workload, tell func(hubapi.Progress),
) (images.Source, func(), error) {
	if err := tangible(w); err != nil {
		return images.Source{}, nil, err
	}
	from := w.From
	if !w.Phase.Active() {
		from = cmp.Or(w.Kept, from)
	}
	a, err := f.remote(ctx, w, from)
	if err != nil {
		return images.Source{}, nil, err
	}
	if a.room, err = f.library.Room(ctx, f.cfg.Principal(w.Hub, w.Owner), ""); err != nil {
		return images.Source{}, nil, err
	}
	if w.Phase.Active() { // otherwise what was kept is all that there is
		a.changes = f.cfg.Changes(w.ID)
	}
	return f.captureRemote(ctx, a, tell)
}

// tangible refuses a remote session whose file tree is not to be had now: an older one is not what its user means.
func tangible(w spawner.Workload) error {
	switch {
	case w.Phase == spawner.Booting || w.Phase == spawner.Running || w.Phase == spawner.Stopped && w.Unkept == "":
		return nil
	case w.Phase == spawner.Stopped:
		return errs.New(
			errs.Conflict, "what was changed in session %s could not be kept when it ended: %s", w.ID, w.Unkept,
		).With("start it, which keeps that first, and freeze it then")
	case w.Phase == spawner.Stopping:
		return errs.New(errs.Conflict, "session %s is just ending, and its changes are on their way here", w.ID).
			With("wait until its events say that they are kept, and it has stopped")
	default:
		return errs.New(errs.Conflict, "session %s does not run yet: it has no file tree", w.ID).
			With("wait until it runs")
	}
}

// letGo forgets what a session carried before it carried what it does now.
func (f *Service) letGo(owner string, w spawner.Workload) error {
	all, err := f.library.Records.List(owner)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.FromSession != string(w.ID) || e.Digest == w.Kept || e.Digest == w.Spec.Environment {
			continue
		}
		if _, err := f.library.Records.Remove(owner, e.Digest); err != nil {
			return err
		}
	}
	return nil
}

const (
	// sweepEvery is how often what nobody goes on from is looked for.
	sweepEvery = 10 * time.Minute
	// unneeded is how long it must have been so: who was given it a moment ago may not be known to use it yet.
	unneeded = time.Hour
)

// tidyCarried lets go of what no session goes on from, and of images that nobody offers any more, until ctx ends.
func (f *Service) tidyCarried(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		needed, err := f.inUse(ctx)
		if err == nil {
			err = f.sweepCarried(needed, time.Now())
		}
		if err != nil && ctx.Err() == nil {
			f.log.Error("what sessions carried cannot be tidied up", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sweepCarried removes what is not among the digests that are needed.
func (f *Service) sweepCarried(needed []string, now time.Time) error {
	all, err := f.library.Records.Everyones()
	if err != nil {
		return err
	}
	var failed []error
	newest := f.remoteImages()
	for _, e := range all {
		offered := e.Owner == basesOwner && newest[e.Base.Reference]
		if offered {
			newest[e.Base.Reference] = false // older ones of it are not
		}
		if !hidden(e) || offered || slices.Contains(needed, e.Digest) || now.Sub(e.Used) < unneeded {
			continue
		}
		_, err := f.library.Records.Remove(e.Owner, e.Digest)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// remoteImages returns the references of images that remote sessions can be started from.
func (f *Service) remoteImages() map[string]bool {
	out := map[string]bool{}
	for _, p := range f.cfg.Site.Profiles {
		for _, i := range f.cfg.Site.Images {
			if config.BatchSystem(p.Backend) != "" && slices.Contains(p.Images, i.Name) {
				out[i.Ref] = true
			}
		}
	}
	return out
}
