package environments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/changeset"
	"slipway/images/tree"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// remoteChanges is a session that runs, or ran, where there is no engine: under Apptainer on a worker node. Only its
// agent reads its changes, and they are over the environment that it was started from.
type remoteChanges struct {
	environment string // its digest
	// owner is who the session's user is in environments; nil: it ran as root, and what is in it is of who it was
	// there.
	owner  *changeset.Owner
	mounts []string // paths inside at which something else was mounted
	room   int64    // bytes that an environment of it may have of its own
	// carried says that nobody but the session gets what comes of it.
	carried bool
	// changes returns what it has changed, as package images/changeset streams it; nil: nothing.
	changes func(ctx context.Context, r control.ChangesRequest) (io.ReadCloser, error)
}

// captureRemote returns the file tree of such a session, as the library of environments wants it: over the image of its
// environment, whose changes come first. done removes what was copied.
func (f *Service) captureRemote(
	ctx context.Context, a remoteChanges, tell func(hubapi.Progress),
) (source images.Source, done func(), err error) {
	if !a.carried { // others may start from what comes of it, so the image must be one that they may have
		if _, err := f.library.Thaw(ctx, a.environment); err != nil {
			return images.Source{}, nil, err
		}
	}
	under, release, err := f.library.Beneath(ctx, a.environment)
	if err != nil {
		return images.Source{}, nil, fmt.Errorf("look for what the session was started from: %w", err)
	}
	strip, err := tree.NewStrip(f.cfg.Site.Environments.Strip)
	if err != nil {
		release()
		return images.Source{}, nil, err
	}
	source = under.Source
	source.Mounts = a.mounts
	if !a.carried {
		source.Layers = f.layersOf(ctx, source.Base.Digest)
	}
	source, remove, err := f.copied(
		ctx, source, a.fetch(strip.Rules(), source.Layers, under, maxFiles), tell,
	)
	if err != nil {
		release()
		return images.Source{}, nil, err
	}
	return source, func() { remove(); release() }, nil
}

// layersOf returns the directories of an image, where the engine still has it. With them any change can be frozen, and
// a frozen tree compared.
func (f *Service) layersOf(ctx context.Context, image string) []string {
	source, err := f.cfg.Trees().Layers(ctx, image, func(string, int) {})
	if err != nil {
		f.log.Info("the engine does not have the image of a session any more", "image", image, "error", err)
		return nil
	}
	return source.Layers
}

// fetch unpacks what the session's agent streams. What never travels does not even leave the session's host.
func (a remoteChanges) fetch(strip, layers []string, under images.Beneath, entries int64) Fetch {
	return func(ctx context.Context, dir string, tell func(string, int)) (upper string, _ []string, err error) {
		if a.changes == nil {
			upper = filepath.Join(dir, "upper")
			return upper, layers, errors.Join(os.Mkdir(upper, 0o755), under.Fill(ctx, upper))
		}
		asked, cancel := context.WithCancel(ctx)
		defer cancel()
		mute := time.AfterFunc(silence, cancel)
		stream, err := a.changes(asked, control.ChangesRequest{Strip: strip})
		if !mute.Stop() && ctx.Err() == nil {
			err = errs.New(errs.Unavailable, "the session does not answer").With(lookAtNetwork)
		}
		if err != nil {
			return "", nil, err
		}
		upper, err = changeset.Unpack(ctx, &listener{stream: stream, free: diskOf(dir)}, changeset.Target{
			Dir: dir, Fill: under.Fill, Owner: a.owner, Image: imageOf(under),
			Limits:   changeset.Limits{Bytes: mostBytes(a.room), Entries: entries},
			Progress: arriving(tell),
		})
		return upper, layers, errors.Join(err, stream.Close())
	}
}

// imageOf tells of an image what package pack wants to know.
func imageOf(b images.Beneath) *changeset.Image {
	return &changeset.Image{
		Has: func(path string) (bool, error) { return b.Has(path), nil },
		Directory: func(path string) (changeset.Owner, bool, error) {
			uid, gid, found := b.Directory(path)
			return changeset.Owner{UID: uid, GID: gid}, found, nil
		},
	}
}

// mostBytes is how much may come for an environment that may have so many bytes of its own: more than that does not get
// so small when it is compressed, unless it holds next to nothing.
func mostBytes(room int64) int64 { return min(room, 1<<36)*8 + 1<<30 }

// What a session's agent may take of this host while its changes come: a freeze, and room on its disk.
const (
	silence    = 2 * time.Minute  // in which nothing comes
	stretch    = 10 * time.Minute // of waiting, in which leastBytes come
	leastBytes = 16 << 20
	longest    = 6 * time.Hour // of waiting, in all
	lookEvery  = 64 << 20      // bytes, after which the disk's room is looked at
	leastFree  = int64(10) << 30
	freePart   = 20 // or one part in so many of the disk, if that is less
)

// listener reads a stream that is written to a directory. It ends it when nothing comes for too long, or too little,
// and before the directory's disk is full: others need it as well.
type listener struct {
	stream io.ReadCloser
	free   func() (free, all int64, err error) // bytes of that disk

	waited, all time.Duration // in this stretch, and before it
	came, next  int64         // bytes in this stretch, and until the disk is looked at
}

// Read reads what comes.
func (l *listener) Read(p []byte) (int, error) {
	if err := l.look(); err != nil {
		return 0, err
	}
	begun := time.Now()
	given := time.AfterFunc(silence, func() { _ = l.stream.Close() }) // so that Read returns
	n, err := l.stream.Read(p)
	if !given.Stop() {
		return n, errs.New(errs.Unavailable, "nothing more has come from the session for %s", silence).
			With(lookAtNetwork)
	}
	l.waited, l.came, l.next = l.waited+time.Since(begun), l.came+int64(n), l.next-int64(n)
	if l.waited >= stretch && err == nil {
		err = l.turn()
	}
	return n, err
}

// turn ends a stretch.
func (l *listener) turn() error {
	l.all += l.waited
	switch {
	case l.came < leastBytes:
		return errs.New(
			errs.Unavailable, "only %d MB have come from the session in %s", l.came/1e6, l.waited.Round(time.Second),
		).With(lookAtNetwork)
	case l.all >= longest:
		return errs.New(errs.Unavailable, "what the session has changed had not come in %s", longest).
			With(
				"its network is too slow for so much: remove what is not needed, or move it to a volume, and try again",
			)
	}
	l.waited, l.came = 0, 0
	return nil
}

const lookAtNetwork = "look at whether its host still has a good network, and try again"

// look says when the disk has no room for more.
func (l *listener) look() error {
	if l.next > 0 {
		return nil
	}
	l.next = lookEvery
	free, all, err := l.free()
	if err == nil && free < min(all/freePart, leastFree) {
		err = errs.New(errs.NoSpace, "the disk of the service has no room for what the session has changed").
			With("try again later, or tell your administrator: it has " + units.MemoryWords(free) + " left")
	}
	return err
}

// diskOf looks at the room of the disk on which a directory lies.
func diskOf(dir string) func() (free, all int64, err error) {
	return func() (free, all int64, err error) {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return 0, 0, fmt.Errorf("look at the room in %s: %w", dir, err)
		}
		return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
	}
}

// arriving tells of a stream, about every 8 MiB.
func arriving(tell func(string, int)) func(changeset.Progress) {
	next := int64(0)
	return func(p changeset.Progress) {
		if p.Bytes < next {
			return
		}
		next = p.Bytes + 8<<20
		percent := -1
		if p.AllBytes > 0 {
			percent = int(min(p.Bytes*100/p.AllBytes, 100))
		}
		tell(fmt.Sprintf("The session's changes are coming (%d of %d MB)", p.Bytes/1e6, p.AllBytes/1e6), percent)
	}
}
