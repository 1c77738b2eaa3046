package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"slipway/internal/errs"
)

// check looks whether the parts are still there, and forgets the copies that are not whole.
func (k *keeper) check(ctx context.Context) error {
	known := map[Part]bool{}
	for _, n := range k.all() {
		for _, p := range n.Parts {
			if known[p] {
				continue
			}
			there, err := k.there(ctx, p)
			if err != nil {
				return err
			}
			if known[p] = there; !there {
				k.cfg.Logger.Error(
					"a copy has gone from a store, and is written anew", "store", k.member.Name, "digest", p.Digest,
				)
				if err := k.forget(p.Digest); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (k *keeper) there(ctx context.Context, p Part) (bool, error) {
	ctx, cancel := deadline(ctx, 0)
	defer cancel()
	info, err := k.member.Stat(ctx, p.Digest)
	if errs.Is(err, errs.NotFound) {
		return false, nil
	}
	return err == nil && info.Size == p.Size, err
}

// forget lets the environments that have a part be written again.
func (k *keeper) forget(part string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.damaged++
	for digest, n := range k.notes {
		if !slices.ContainsFunc(n.Parts, func(p Part) bool { return p.Digest == part }) {
			continue
		}
		if err := os.Remove(k.path(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(k.notes, digest)
	}
	return nil
}

// clear lets copies go that the library has had no environment for a while.
func (k *keeper) clear(ctx context.Context) error {
	known, err := k.cfg.Known()
	if err != nil {
		return fmt.Errorf("list environments: %w", err)
	}
	if len(known) == 0 {
		return nil // an empty library may be one that was lost
	}
	known = sorted(known)
	var old []note
	for _, n := range k.all() {
		_, there := slices.BinarySearch(known, n.Digest)
		switch {
		case there == n.Gone.IsZero():
			if !there && time.Since(n.Gone) > keepGone {
				old = append(old, n)
			}
			continue
		case there:
			n.Gone = time.Time{}
		default:
			n.Gone = time.Now().UTC()
		}
		if err := k.keep(n); err != nil {
			return err
		}
	}
	return k.remove(ctx, old)
}

// remove deletes what nothing else needs, the documents first.
func (k *keeper) remove(ctx context.Context, old []note) error {
	for _, n := range old {
		if err := os.Remove(k.path(n.Digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		k.mu.Lock()
		delete(k.notes, n.Digest)
		needed := k.needed()
		k.mu.Unlock()
		for _, p := range slices.Backward(n.Parts) {
			if needed[p.Digest] {
				continue
			}
			if err := k.member.Delete(ctx, p.Digest); err != nil {
				return errors.Join(err, k.keep(n)) // to be tried again
			}
		}
		k.cfg.Logger.Info(
			"copies of an environment that the library let go are removed", "store", k.member.Name, "digest", n.Digest,
		)
	}
	return nil
}

// needed returns the parts that any copy has. It is called with the lock held.
func (k *keeper) needed() map[string]bool {
	out := map[string]bool{}
	for _, n := range k.notes {
		for _, p := range n.Parts {
			out[p.Digest] = true
		}
	}
	return out
}
