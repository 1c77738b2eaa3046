package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/images/blob"
	"slipway/images/blobstore"
	"slipway/internal/errs"
)

// Environment is what a store keeps of one.
type Environment struct {
	Parts []Part // what the document names; the last is the document
	Open  func(ctx context.Context, digest string) (blob.Blob, error)
}

// Part is content by its digest.
type Part struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Config is what copies are made of.
type Config struct {
	Dir    string             // of what is known of each store, <store>/<hex>.json; nobody else writes there
	Stores []blobstore.Member // read in this order
	// Ready lists the environments that are to be copied, by digest.
	Ready func() ([]string, error)
	// Known lists those that the library has in any state: their copies stay.
	Known func() ([]string, error)
	// Find returns the parts of an environment.
	Find   func(digest string) (Environment, error)
	Logger *slog.Logger
}

// Replicator looks after the copies. It is safe for concurrent use.
type Replicator struct {
	cfg     Config
	keepers []*keeper
}

// New reads what is known of the stores.
func New(cfg Config) (*Replicator, error) {
	c := &Replicator{cfg: cfg}
	for _, m := range cfg.Stores {
		k, err := newKeeper(cfg, m)
		if err != nil {
			return nil, fmt.Errorf("store %s: %w", m.Name, err)
		}
		c.keepers = append(c.keepers, k)
	}
	return c, nil
}

// Run writes copies until ctx ends.
func (c *Replicator) Run(ctx context.Context) error {
	var all errgroup.Group
	for _, k := range c.keepers {
		all.Go(func() error { return k.run(ctx) })
	}
	return all.Wait()
}

// Copy says how a store is with an environment.
type Copy struct {
	Store   string
	Since   time.Time // when it was stored; zero: it is not
	Problem error     // why not; nil: its turn has not come
}

// Of says where copies of an environment are.
func (c *Replicator) Of(digest string) []Copy {
	var out []Copy
	for _, k := range c.keepers {
		out = append(out, k.of(digest))
	}
	return out
}

// Stats says how a store is.
type Stats struct {
	Store   string
	Up      bool // it did what it was last asked
	Stored  int  // environments
	Waiting int
	Bytes   int64 // of content, each part once
	Damaged int   // copies that were found wrong since the start
}

// Stats says how the stores are.
func (c *Replicator) Stats() []Stats {
	var out []Stats
	for _, k := range c.keepers {
		out = append(out, k.stats())
	}
	return out
}

// Fetch writes content into a new file, from the first store that has it whole. limit bounds its size. It is of kind
// errs.NotFound when no store has it, and errs.Unavailable when one that may have it cannot be read.
func (c *Replicator) Fetch(ctx context.Context, digest string, limit int64, path string) error {
	var all error
	kind := errs.NotFound
	for _, k := range c.keepers {
		err := k.fetch(ctx, digest, limit, path)
		if err == nil {
			c.cfg.Logger.Info("content came back from a store", "store", k.member.Name, "digest", digest)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Internal) || errs.Is(err, errs.Forbidden) {
			kind = errs.Unavailable
		}
		all = errors.Join(all, fmt.Errorf("store %s: %w", k.member.Name, err))
	}
	return errs.New(kind, "no store gives %s: %w", digest, all).With("`slipway doctor` looks at the stores")
}

// slowest is the least speed that is waited for; what is slower is tried again, or elsewhere.
const slowest = 1 << 20

func deadline(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Minute+time.Duration(size/slowest)*time.Second,
		errs.New(errs.Unavailable, "it takes too long: less than 1 MB comes through in a second"))
}

// fetch reads one store's copy.
func (k *keeper) fetch(ctx context.Context, digest string, limit int64, path string) error {
	ctx, cancel := deadline(ctx, limit)
	defer cancel()
	info, err := k.member.Stat(ctx, digest)
	if err != nil {
		return err
	}
	if info.Size > limit {
		return k.wrong(digest, errs.New(errs.Invalid, "it has %d bytes", info.Size))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = blobstore.Read(ctx, k.member, digest, f)
	if err = errors.Join(err, f.Close()); err == nil {
		return nil
	}
	err = errors.Join(err, os.Remove(path))
	if errs.Is(err, errs.Invalid) {
		return k.wrong(digest, err)
	}
	return cmp.Or(context.Cause(ctx), err)
}

// wrong has a damaged copy written anew. It stays until there is good content to write: what came may have been damaged
// on the way.
func (k *keeper) wrong(digest string, why error) error {
	k.cfg.Logger.Error(
		"a copy is damaged, and is to be written anew", "store", k.member.Name, "digest", digest, "error", why,
	)
	return errors.Join(why, k.suspect(digest), k.forget(digest))
}

// Probe tries whether a store can be written to and read. It leaves nothing there.
func Probe(ctx context.Context, s blobstore.Store, content []byte) error {
	digest := blob.Digest(content)
	if err := s.Put(ctx, digest, blob.Bytes(content)); err != nil {
		return err
	}
	err := blobstore.Verify(ctx, s, digest)
	return errors.Join(err, s.Delete(ctx, digest))
}

// path names what is known of an environment's copy.
func (k *keeper) path(digest string) string { return k.named(digest, ".json") }

func (k *keeper) named(digest, suffix string) string {
	hexPart, ok := blob.Hex(digest)
	if !ok {
		hexPart = "none"
	}
	return filepath.Join(k.dir, hexPart+suffix)
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
