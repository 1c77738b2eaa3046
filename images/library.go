package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"slipway/images/bases"
	"slipway/images/inventory"
	"slipway/images/libdir"
	"slipway/images/pin"
	"slipway/images/progress"
	"slipway/images/records"
	"slipway/images/signing"
	"slipway/images/statements"
	"slipway/images/tree"
	"slipway/images/trial"
	"slipway/internal/errs"
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
	Quotas func(owner string) []records.Quota
	// InUse returns the digests of environments that jobs and sessions need; nil: none do.
	InUse func(context.Context) ([]string, error)
	// Fetch writes content that was copied to other stores into a new file; what is longer than limit, or has another
	// digest, is an error. With it images that are damaged or gone come back. Nil: there are no other stores.
	Fetch func(ctx context.Context, digest string, limit int64, path string) error
	// Try runs a command in an environment and returns what it printed; nil, or an error of kind Missing: that cannot be
	// done here.
	Try func(context.Context, trial.Command) ([]byte, error)
	Now func() time.Time // time.Now when nil
}

// Library is a directory of environments: see [libdir.Dir] for its files.
type Library struct {
	// Records says whose the environments are, and what they are called. Its lock is held too while what no record leads
	// to is removed.
	Records *records.Store
	// Statements says where they come from.
	Statements *statements.Store

	dir     libdir.Dir
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
	opened      bases.Cache
	pins        pin.Set
	abandoned   map[string]bool // digests of what was here and is not any more; guarded by the lock of Records
	trusted     libdir.Stamps
	spoiled     libdir.Stamps // images that are known to be damaged
	glances     glances
	soundBases  libdir.KeptStamps // bases that were compared: a freeze does not wait for that after each restart
	signing     sync.RWMutex      // held while an image grows by a signature: nobody finds half of one
	wanted      pin.Set           // keep images whole that were asked for a moment ago
	placing     sync.Mutex        // over the last look at a place and the taking of it, by an image and its tail.
	layingOut   chan struct{}     // has one place, for who lays an image out
	sweeps      sweeps
	pending     chan string // digests of images that are to be settled
	trials      *trial.Queue
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
		dir: libdir.Dir(dir), cfg: cfg, log: cfg.Logger, strip: strip, carried: carried,
		pending: make(chan string, maxPending), layingOut: make(chan struct{}, 1),
		abandoned:  map[string]bool{},
		soundBases: libdir.KeptStamps{File: filepath.Join(dir, "sound-bases.json"), Now: cfg.Now, Logger: cfg.Logger},
	}
	l.Records = records.NewStore(records.Config{
		Dir: l.dir, Logger: l.log, Now: cfg.Now, Quotas: cfg.Quotas,
		Keep: func(digest string) { l.keepFor(digest, pin.Grace) },
	})
	l.Statements = statements.New(l.dir, cfg.Keys, l.log)
	l.trials = trial.NewQueue(trial.Config{
		Records: l.Records, Logger: l.log, Now: cfg.Now, Run: cfg.Try, Image: l.Ready,
		Inventory: func(ctx context.Context, digest string) (inventory.Inventory, error) {
			about, err := l.About(ctx, digest)
			return about.Inventory, err
		},
	})
	if err := l.prepare(); err != nil {
		return nil, fmt.Errorf("open library %s: %w", dir, err)
	}
	return l, nil
}

func (l *Library) prepare() error {
	lock, err := l.dir.Open(l.log)
	if err != nil {
		return err
	}
	l.lock = lock
	l.soundBases.Load()
	if err := errors.Join(l.dropTails(), l.repair()); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// Close lets another process open the library. No freeze may be in progress.
func (l *Library) Close() error {
	l.opened.Forget()
	return l.lock.Close()
}
