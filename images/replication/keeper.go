package replication

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"slipway/images/blobstore"
	"slipway/internal/backoff"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

const (
	lookEvery  = 10 * time.Second   // for what is to be written
	checkEvery = 24 * time.Hour     // whether what was written is still there
	keepGone   = 3 * 24 * time.Hour // copies of what the library has no more
)

// note is what is known of an environment's copy in one store.
type note struct {
	Digest  string    `json:"digest"`
	Parts   []Part    `json:"parts"`
	Written time.Time `json:"written"`
	Gone    time.Time `json:"gone,omitzero"` // since when the library has it no more
}

// keeper looks after one store.
type keeper struct {
	cfg    Config
	member blobstore.Member
	dir    string

	mu      sync.Mutex
	notes   map[string]note  // by environment
	waiting map[string]error // environments that are not stored, and why
	damaged int
	failing bool
}

func newKeeper(cfg Config, m blobstore.Member) (*keeper, error) {
	k := &keeper{
		cfg: cfg, member: m, dir: filepath.Join(cfg.Dir, m.Name), notes: map[string]note{}, waiting: map[string]error{},
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(k.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		var n note
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &n)
		}
		if err != nil || k.path(n.Digest) != path {
			cfg.Logger.Error("what is known of a copy cannot be read, it is written again", "file", path, "error", err)
			continue
		}
		k.notes[n.Digest] = n
	}
	return k, nil
}

// run writes, checks and clears until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	failed := backoff.Backoff{First: 5 * time.Second, Most: 30 * time.Minute}
	var checked time.Time
	for {
		err := k.round(ctx, &checked)
		if ctx.Err() != nil {
			return nil
		}
		k.mu.Lock()
		k.failing = err != nil
		k.mu.Unlock()
		wait := lookEvery
		if err == nil {
			failed.Reset()
		} else {
			wait = failed.Next()
			k.cfg.Logger.Warn(
				"a store takes no copies now", "store", k.member.Name, "again", wait.Round(time.Second), "error", err,
			)
		}
		if !clock.Sleep(ctx, wait) {
			return nil
		}
	}
}

// round does what is to be done now. An error is the store's.
func (k *keeper) round(ctx context.Context, checked *time.Time) error {
	if time.Since(*checked) > checkEvery {
		if err := k.check(ctx); err != nil {
			return err
		}
		*checked = time.Now()
	}
	if err := k.writeAll(ctx); err != nil {
		return err
	}
	return k.clear(ctx)
}

// writeAll copies what is not there yet. An environment that cannot be read here keeps no other one from being copied.
func (k *keeper) writeAll(ctx context.Context) error {
	ready, err := k.cfg.Ready()
	if err != nil {
		return fmt.Errorf("list environments: %w", err)
	}
	k.expect(ready)
	for _, digest := range ready {
		if k.has(digest) {
			continue
		}
		own, err := k.write(ctx, digest)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		k.hears(digest, err)
		if err != nil && !own {
			return err
		}
		if err != nil {
			k.cfg.Logger.Error(
				"an environment cannot be copied", "store", k.member.Name, "digest", digest, "error", err,
			)
		}
	}
	return nil
}

// expect notes what waits for its turn.
func (k *keeper) expect(ready []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := map[string]error{}
	for _, digest := range ready {
		if _, there := k.notes[digest]; !there {
			now[digest] = k.waiting[digest]
		}
	}
	k.waiting = now
}

func (k *keeper) has(digest string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, there := k.notes[digest]
	return there && n.Gone.IsZero()
}

func (k *keeper) hears(digest string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		delete(k.waiting, digest)
	} else {
		k.waiting[digest] = err
	}
}

// write copies an environment: its document last. own tells an error that is the environment's from one of the store.
func (k *keeper) write(ctx context.Context, digest string) (own bool, err error) {
	e, err := k.cfg.Find(digest)
	if err != nil {
		return true, err
	}
	for _, p := range e.Parts {
		if own, err := k.put(ctx, e, p); err != nil {
			return own, err
		}
	}
	return false, k.keep(note{Digest: digest, Parts: e.Parts, Written: time.Now().UTC()})
}

func (k *keeper) put(ctx context.Context, e Environment, p Part) (own bool, err error) {
	b, err := e.Open(ctx, p.Digest)
	if err != nil {
		return true, err
	}
	defer b.Close()
	ctx, cancel := deadline(ctx, p.Size)
	defer cancel()
	suspected := k.suspected(p.Digest)
	if suspected { // a store writes nothing over what has the right size
		if err := blobstore.VerifyBlob(ctx, b, p.Digest); err != nil {
			return true, err
		}
		if err := k.member.Delete(ctx, p.Digest); err != nil {
			return false, err
		}
	}
	err = k.member.Put(ctx, p.Digest, b)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && suspected {
		err = os.Remove(k.named(p.Digest, suspectSuffix))
	}
	return errs.Is(err, errs.Invalid), err // the bytes here are not those of the digest
}

// suspectSuffix is of files that name parts whose copies are damaged.
const suspectSuffix = ".suspect"

func (k *keeper) suspect(part string) error {
	return blobstore.WriteFile(k.named(part, suspectSuffix), nil)
}

func (k *keeper) suspected(part string) bool {
	_, err := os.Lstat(k.named(part, suspectSuffix))
	return err == nil
}

// keep writes a note down, and then knows it.
func (k *keeper) keep(n note) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	path := k.path(n.Digest)
	if err := blobstore.WriteFile(path, data); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notes[n.Digest] = n
	return nil
}

func (k *keeper) all() []note {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.notes))
}

func (k *keeper) of(digest string) Copy {
	k.mu.Lock()
	defer k.mu.Unlock()
	return Copy{Store: k.member.Name, Since: k.notes[digest].Written, Problem: k.waiting[digest]}
}

func (k *keeper) stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := Stats{
		Store: k.member.Name, Up: !k.failing, Stored: len(k.notes), Waiting: len(k.waiting), Damaged: k.damaged,
	}
	seen := map[string]bool{}
	for _, n := range k.notes {
		for _, p := range n.Parts {
			if !seen[p.Digest] {
				seen[p.Digest] = true
				out.Bytes += p.Size
			}
		}
	}
	return out
}
