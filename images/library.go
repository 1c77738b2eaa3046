package images

import (
	"slipway/images/progress"

	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/signing"
	"slipway/images/tree"
	"slipway/internal/errs"
	"slipway/internal/mounts"
)

// Config says where a library is, how it packs, and by what rules it keeps.
type Config struct {
	Dir      string        // made when missing; on a file system that holds trusted xattrs and devices (not NFS)
	Logger   *slog.Logger  // required
	Strip    []string      // the site's rules, beside tree.DefaultStrip
	Keys     *signing.Keys // sign images and say where they come from; nil: nothing is signed
	Version  string        // of Slipway, for provenance statements
	MaxFiles int64         // that one freeze may find changed; 0: no bound
	Keep     time.Duration // how long an environment without a name is kept after its last use; 0: for ever
	// Quotas returns what bounds an owner's environments; nil: nothing does.
	Quotas func(owner string) []Quota
	// InUse returns the digests of environments that jobs and sessions need; nil: none do.
	InUse func(context.Context) ([]string, error)
	// Fetch writes content that was copied to other stores into a new file; what is longer than limit, or has another
	// digest, is an error. With it images that are damaged or gone come back. Nil: there are no other stores.
	Fetch func(ctx context.Context, digest string, limit int64, path string) error
	// Try runs a command in an environment and gives what it printed; nil, or an error of kind Missing: that cannot be
	// done here.
	Try func(context.Context, Trial) ([]byte, error)
	Now func() time.Time // time.Now when nil
}

// Library is a directory of environments:
//
//	documents/<hex>.json        the documents that name the environments' parts; <hex> is the digest of the document
//	blobs/<hex>.sif             the environments' images, each once
//	facts/<hex>.json            what was found out of an image since: the digest of the signed file, what is in it
//	statements/<hex>/           signed statements on where it comes from
//	bases/<hex>.sqfs            converted images, by their own digest; bases/<key>.json says of what
//	records/<owner>/<hex>.json  whose the environments are and what they are called
//	sources/<owner>/<key>.json  what the last freeze of a source found; <key>.memory what it has stored where
//	tails/<hex>/                what an image has beside its base, in packs that environments of one session share; see thin.go
//	work/                       freezes and conversions in progress
//	lock                        held by the one process that has the library open
//
// Who may read: the whole tree is root's. blobs and the library itself can be entered but not listed (0711) and the
// files are world-readable, so a batch job of any user can open an environment whose digest it was given, and no user
// can find out which there are: a digest has 256 bits and nothing but the owner's records leads to it. All else is
// 0700.
type Library struct {
	dir     string
	cfg     Config
	log     *slog.Logger
	strip   *tree.Strip
	carried *tree.Strip // for what is carried
	lock    *os.File

	freezes     progress.Group[frozen]
	conversions progress.Group[baseRecord]
	returns     progress.Group[struct{}] // of images from other stores
	settles     progress.Group[struct{}]
	comparisons progress.Group[struct{}] // of images with their digests
	opened      baseCache
	pins        pins
	abandoned   map[string]bool // digests of what was here and is not any more; by records
	records     sync.Mutex      // over read-change-write of a record, and over the removal of what none leads to
	index       recordIndex
	trusted     stamps
	spoiled     stamps // images that are known to be damaged
	glances     glances
	soundBases  stamps        // bases whose bytes were compared
	signing     sync.RWMutex  // held while an image grows by a signature: nobody finds half of one
	wanted      pins          // keep images whole that were asked for a moment ago
	placing     sync.Mutex    // over the last look at a place and the taking of it, by an image and its tail.
	layingOut   chan struct{} // has one place, for who lays an image out
	sweeps      sweeps
	pending     chan string // digests of images that are to be settled
	untried     chan trialKey
}

// Open opens the library, alone, and clears away what a killed service left in it. Close it after the last call.
func Open(cfg Config) (*Library, error) {
	strip, err := tree.NewStrip(cfg.Strip)
	if err != nil {
		return nil, err
	}
	carried, err := tree.CarriedStrip(cfg.Strip)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil || cfg.Dir == "" {
		return nil, errs.Bad("dir", cfg.Dir, "name the directory that is to hold the environments")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Library{
		dir: dir, cfg: cfg, log: cfg.Logger, strip: strip, carried: carried,
		pending: make(chan string, maxPending), layingOut: make(chan struct{}, 1),
		abandoned: map[string]bool{}, untried: make(chan trialKey, maxPending),
	}
	if err := l.prepare(); err != nil {
		return nil, fmt.Errorf("open library %s: %w", dir, err)
	}
	return l, nil
}

// places are the library's directories and their modes.
func places() map[string]os.FileMode {
	return map[string]os.FileMode{
		"": 0o711, "blobs": 0o711, "documents": 0o700, "facts": 0o700, "statements": 0o700, "bases": 0o700, "records": 0o700, "sources": 0o700, "tails": 0o700,
		"work": 0o700,
	}
}

func (l *Library) prepare() error {
	for _, name := range slices.Sorted(maps.Keys(places())) {
		if err := os.MkdirAll(l.path(name), 0o700); err != nil {
			return err
		}
		if err := os.Chmod(l.path(name), places()[name]); err != nil {
			return err
		}
	}
	if err := l.acquire(); err != nil {
		return err
	}
	if err := errors.Join(l.reap(), l.dropTails(), l.repair()); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// lockPatience is how long an opening waits for the lock: a service that was killed leaves it to a child that it was
// just starting, which has it until it becomes another program.
const lockPatience = 2 * time.Second

// acquire takes the lock: reaping must never take the work of another process for left-overs.
func (l *Library) acquire() error {
	f, err := os.OpenFile(l.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := lockSoon(f); err != nil {
		return errors.Join(errs.New(errs.Conflict, "another process has it open: %w", err).With("stop the other service first"), f.Close())
	}
	l.lock = f
	return nil
}

func lockSoon(f *os.File) error {
	for end := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// Close lets another process open the library. No freeze may be in progress.
func (l *Library) Close() error {
	l.opened.forget()
	return l.lock.Close()
}

// reap removes unfinished freezes with their mounts, and temporary files.
func (l *Library) reap() error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, point := range mountsBelow(string(table), l.path("work")) {
		l.log.Info("unmounting what an unfinished freeze left", "path", point)
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	left, err := filepath.Glob(l.path("work", "*"))
	if err != nil {
		return err
	}
	for _, pattern := range []string{"records/*", "sources/*", "statements/*", "tails/*", "documents", "facts", "bases"} {
		files, err := filepath.Glob(l.path(pattern, temporary+"*"))
		if err != nil {
			return err
		}
		left = append(left, files...)
	}
	for _, path := range left {
		l.log.Info("removing what an unfinished freeze left", "path", path)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// mountsBelow returns the mount points below dir, the last mounted first.
func mountsBelow(mountinfo, dir string) []string {
	var out []string
	for m := range mounts.Mounts(mountinfo) {
		if strings.HasPrefix(m.Point, dir+"/") {
			out = append(out, m.Point)
		}
	}
	slices.Reverse(out)
	return out
}

func (l *Library) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

// blob names the file of an environment's image: a SIF, readable by every user who knows the path.
func (l *Library) blob(digest string) string { return l.path("blobs", hexOrNone(digest)+".sif") }
