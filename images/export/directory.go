package export

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/errs"
)

// most bounds the lists of paths in a report; counts go on.
const most = 100

// DirectoryConfig says where to unpack an environment.
type DirectoryConfig struct {
	Env      *squashfs.Image
	Root     string   // of the repository: an existing directory, such as the path of an open CVMFS transaction
	Digest   string   // of the environment, in hex
	Name     string   // such as "hub.example.org/alice/ana:v1"; empty for no link
	Progress Progress // may be nil
}

// Unpacked says what Directory made.
type Unpacked struct {
	Path    string // of the tree, from the repository's root: .flat/<first two digits>/<digest>
	Link    string // to it, by name; empty when none was wanted
	Old     bool   // the tree was there already
	Opened  Listed // what its owner could not have read, and now can: a tree is published by reading it
	Skipped Listed // devices
	// Files that would have run with their owner's rights, or with capabilities, and now run with the caller's.
	Tamed  Listed
	Owners bool // owners and xattrs are those of the environment, as only root can have them
}

// Listed is a list of paths that may have been cut short.
type Listed struct {
	Count int
	Paths []string
}

func (l *Listed) add(path string) {
	if l.Count++; len(l.Paths) < most {
		l.Paths = append(l.Paths, path)
	}
}

// Directory unpacks an environment in the layout that unpacked CVMFS repositories have: the tree by its digest, and a
// link by name. A tree appears whole or not at all. One call at a time for each digest.
func Directory(ctx context.Context, cfg DirectoryConfig) (Unpacked, error) {
	if raw, err := hex.DecodeString(cfg.Digest); err != nil || len(raw) != 32 {
		return Unpacked{}, errs.Bad("digest", cfg.Digest, "give 64 hexadecimal digits")
	}
	if err := checkName(cfg.Name); err != nil {
		return Unpacked{}, err
	}
	out := Unpacked{Path: filepath.Join(".flat", cfg.Digest[:2], cfg.Digest), Link: cfg.Name, Owners: os.Geteuid() == 0}
	whole := filepath.Join(cfg.Root, out.Path)
	_, err := os.Lstat(whole)
	switch {
	case err == nil:
		out.Old = true
	case errors.Is(err, os.ErrNotExist):
		err = unpack(ctx, cfg, whole, &out)
	}
	if err == nil && cfg.Name != "" {
		err = link(cfg.Root, cfg.Name, out.Path)
	}
	if err != nil {
		return Unpacked{}, fmt.Errorf("unpack %s: %w", cfg.Digest, err)
	}
	return out, nil
}

// checkName refuses what would be another place than a name below the root.
func checkName(name string) error {
	if name == "" {
		return nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.ContainsAny(part, "\x00\n") {
			return errs.Bad("name", name, "write registry/name:tag, no part of which is empty or begins with a dot")
		}
	}
	return nil
}

func unpack(ctx context.Context, cfg DirectoryConfig, whole string, out *Unpacked) (err error) {
	if err := os.MkdirAll(filepath.Dir(whole), 0o755); err != nil {
		return written(out.Path, err)
	}
	temp := filepath.Join(filepath.Dir(whole), ".new-"+cfg.Digest)
	if err := os.RemoveAll(temp); err != nil { // of a service that was killed
		return fmt.Errorf("remove what an earlier try left: %w", err)
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return written(out.Path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	dir, err := tree.OpenDir(temp)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := plantAll(ctx, cfg, dir, out); err != nil {
		return err
	}
	// A name must not stand for files that a crash would leave empty.
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return written(out.Path, err)
	}
	return os.Rename(temp, whole)
}

func plantAll(ctx context.Context, cfg DirectoryConfig, dir *os.File, out *Unpacked) error {
	all := Changes(nil, cfg.Env.Root)
	moved := meter(cfg.Progress, count(all).Bytes)
	root := out.makeable("/", cfg.Env.Root)
	return plant(ctx, cfg.Env, dir, root, moved, func(ctx context.Context, p *planter) error {
		for c := range all {
			var err error
			switch {
			case c.Path == "/":
			case c.Node.Kind == squashfs.BlockDevice || c.Node.Kind == squashfs.CharDevice:
				out.Skipped.add(c.Path)
			case c.Link != "":
				err = p.link(c.Path, c.Link)
			default:
				err = p.add(ctx, c.Path, out.makeable(c.Path, c.Node))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// setID are the bits by which a program runs with its file's owner's or group's rights.
const setID = 0o6000

// makeable returns the node that is made in n's place: one that its owner can read and, when this process is not root,
// that is its own.
//
// It gives nobody rights. A container runtime sees to that for an image; the files of a directory can be opened by
// whoever reaches it, on this host and on others, and an environment may be anybody's: a program of root's with the
// set-id bit would make its author root.
func (u *Unpacked) makeable(path string, n *squashfs.Node) *squashfs.Node {
	c := u.tame(path, n)
	before := c.Mode
	switch {
	case n.Kind == squashfs.Dir && u.Owners:
		c.Mode |= 0o500
	case n.Kind == squashfs.Dir:
		c.Mode |= 0o700 // else it could never be removed
	case n.Kind == squashfs.File:
		c.Mode |= 0o400
	}
	if c.Mode != before {
		u.Opened.add(path)
	}
	if !u.Owners {
		c.UID, c.GID = uint32(os.Geteuid()), uint32(os.Getegid())
		own := slices.DeleteFunc(slices.Clone(xattrs(c.Xattrs)), func(x squashfs.Xattr) bool {
			return !strings.HasPrefix(x.Name, "user.") || n.Kind != squashfs.File && n.Kind != squashfs.Dir
		})
		c.Xattrs = &squashfs.Xattrs{List: own}
	}
	return &c
}

// tame returns a copy of a node without what gives rights, or means something to the host's kernel. The set-group bit
// of a directory only names its files' group.
func (u *Unpacked) tame(path string, n *squashfs.Node) squashfs.Node {
	c := *n
	if n.Kind != squashfs.Dir {
		c.Mode &^= setID
	}
	list := xattrs(n.Xattrs)
	safe := slices.DeleteFunc(slices.Clone(list), func(x squashfs.Xattr) bool {
		return strings.HasPrefix(x.Name, "security.") || strings.HasPrefix(x.Name, tree.OverlayPrefix)
	})
	if len(safe) < len(list) {
		c.Xattrs = &squashfs.Xattrs{List: safe}
	}
	if c.Mode != n.Mode || len(safe) < len(list) {
		u.Tamed.add(path)
	}
	return c
}

// link makes or moves the name of a tree, at once.
func link(root, name, to string) error {
	at := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return written(name, err)
	}
	target, err := filepath.Rel(filepath.Dir(name), to)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	temp := filepath.Join(filepath.Dir(at), ".new-"+filepath.Base(at))
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove what an earlier try left: %w", err)
	}
	if err := os.Symlink(target, temp); err != nil {
		return written(name, err)
	}
	if err := os.Rename(temp, at); err != nil {
		return errors.Join(written(name, err), os.Remove(temp))
	}
	return nil
}
