package inventory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"slipway/images/squashfs"
)

// FileChanges is what differs between two trees. Directories count only where their own attributes changed.
type FileChanges struct {
	Added   int   `json:"added"`
	Removed int   `json:"removed"`
	Changed int   `json:"changed"`           // other content, kind, owner, mode, target or xattrs
	Touched int   `json:"touched,omitempty"` // other time alone
	Bytes   int64 `json:"bytes"`             // by which the files of the new tree are larger than those of the old
	// Up to 1000 of those that are added, removed or changed, in the walk's order.
	First []FileDiff `json:"first,omitempty"`
}

// FileDiff is a path that differs.
type FileDiff struct {
	Path string `json:"path"`
	How  How    `json:"how"`
}

// How says in which way a path differs.
type How string

// The ways.
const (
	Added      How = "added"
	Removed    How = "removed"
	Content    How = "content"    // or kind, or a link's target
	Attributes How = "attributes" // owner, mode or xattrs
)

const maxDiffs = 1000

func (f FileChanges) none() bool { return f.Added+f.Removed+f.Changed+f.Touched == 0 }

// Shared says what two images have in common: the superblock of the base that both were grafted on, or of the base
// itself when one of them is it. Contents that lie in the base's bytes are compared by their place alone. Nil: nothing.
type Shared = *squashfs.Superblock

// Files compares two trees. Two files of one length whose content lies in no shared base are read, unless their times
// are equal too: then they are taken for the same, as rsync does.
func Files(ctx context.Context, old, now Tree, shared Shared) (FileChanges, error) {
	c := &fileComparer{old: old, now: now, shared: shared}
	each := func(path string, old, now *squashfs.Node) error { return c.each(ctx, path, old, now) }
	err := differ{each: each}.pair("", old.Root, now.Root)
	if err != nil {
		return FileChanges{}, fmt.Errorf("compare the trees: %w", err)
	}
	return c.out, nil
}

type fileComparer struct {
	old, now Tree
	shared   Shared
	out      FileChanges
}

func (c *fileComparer) each(ctx context.Context, at string, old, now *squashfs.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.out.Bytes += size(now) - size(old)
	switch {
	case old == nil || now == nil:
		c.one(at, old, now)
		return nil
	case !sameAttributes(old, now):
		c.diff(at, Attributes, &c.out.Changed)
		return nil
	}
	same, err := c.same(ctx, old, now)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", line(at), err)
	case !same:
		c.diff(at, Content, &c.out.Changed)
	case old.MTime != now.MTime && now.Kind != squashfs.Dir:
		c.out.Touched++
	}
	return nil
}

// one counts what only one of the trees has.
func (c *fileComparer) one(at string, old, now *squashfs.Node) {
	switch {
	case old == nil && now.Kind != squashfs.Dir:
		c.diff(at, Added, &c.out.Added)
	case now == nil && old.Kind != squashfs.Dir:
		c.diff(at, Removed, &c.out.Removed)
	}
}

func (c *fileComparer) diff(at string, how How, count *int) {
	*count++
	if len(c.out.First) < maxDiffs {
		c.out.First = append(c.out.First, FileDiff{cmp.Or(text(at), "/"), how})
	}
}

// sameAttributes compares what is not content, of nodes of one kind. Another kind is other content.
func sameAttributes(a, b *squashfs.Node) bool {
	return a.Kind != b.Kind || a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && sameXattrs(a.Xattrs, b.Xattrs)
}

func sameXattrs(a, b *squashfs.Xattrs) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return slices.EqualFunc(
		a.List, b.List, func(x, y squashfs.Xattr) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) },
	)
}

func (c *fileComparer) same(ctx context.Context, a, b *squashfs.Node) (bool, error) {
	switch {
	case a.Kind != b.Kind:
		return false, nil
	case a.Kind == squashfs.Symlink:
		return a.Target == b.Target, nil
	case a.Kind != squashfs.File:
		return a.Rdev == b.Rdev, nil
	case size(a) != size(b):
		return false, nil
	case size(a) == 0 || placed(a.Data, b.Data) && c.inShared(a.Data):
		return true, nil
	case a.MTime == b.MTime && !c.inShared(a.Data) && !c.inShared(b.Data):
		return true, nil
	}
	return c.equal(ctx, a, b)
}

// inShared reports whether all of a content lies in the shared base's bytes.
func (c *fileComparer) inShared(d *squashfs.Data) bool {
	if c.shared == nil || d == nil {
		return false
	}
	stored := slices.ContainsFunc(d.Blocks, func(b uint32) bool { return b != 0 })
	return (!stored || d.Start < c.shared.InodeTable) && (d.Fragment == squashfs.NoFragment ||
		d.Fragment < c.shared.Fragments)
}

// equal reads both contents.
func (c *fileComparer) equal(ctx context.Context, a, b *squashfs.Node) (bool, error) {
	x, err := c.old.Open(a)
	if err != nil {
		return false, err
	}
	y, err := c.now.Open(b)
	if err != nil {
		return false, err
	}
	const step = 128 << 10 // a block of most images
	p, q := make([]byte, step), make([]byte, step)
	for off := int64(0); off < size(a); off += step {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n := min(step, size(a)-off)
		if err := errors.Join(fill(x, p[:n], off), fill(y, q[:n], off)); err != nil {
			return false, err
		}
		if !bytes.Equal(p[:n], q[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// fill reads all of p.
func fill(r io.ReaderAt, p []byte, off int64) error {
	if n, err := r.ReadAt(p, off); n < len(p) {
		return fmt.Errorf("read at %d: %w", off, err)
	}
	return nil
}
