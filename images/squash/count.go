package squash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// Losses counts what squashfs cannot hold.
type Losses struct {
	ACLs        int64    // POSIX ACLs
	Xattrs      int64    // of namespaces other than user, trusted and security, ACLs aside
	Nanoseconds int64    // entries whose mtime is no whole second
	Paths       []string // of ACLs and xattrs, at most maxLossPaths
}

const maxLossPaths = 100

// count fills the counts of out from the tree below root.
func count(ctx context.Context, root *os.File, out *Result) error {
	dir, err := tree.OpenDir(tree.Under(root, ".")) // a directory's read position is shared by all who use the descriptor
	if err != nil {
		return err
	}
	defer dir.Close()
	c := counter{ctx, out}
	if err := c.dir(dir, ""); err != nil {
		return fmt.Errorf("count the tree: %w", err)
	}
	return nil
}

type counter struct {
	ctx context.Context
	out *Result
}

func (c counter) dir(dir *os.File, rel string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	list, err := tree.Names(dir)
	if err != nil {
		return fmt.Errorf("list /%s: %w", rel, err)
	}
	for _, name := range list {
		st, err := tree.StatAt(dir, name)
		if err != nil {
			return err
		}
		if err := c.entry(dir, name, rel, &st); err != nil {
			return fmt.Errorf("/%s: %w", tree.Join(rel, name), err)
		}
		if tree.IsDir(&st) {
			if err := c.sub(dir, name, rel, st.Dev); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c counter) sub(dir *os.File, name, rel string, dev uint64) error {
	sub, err := tree.Child(dir, name, dev)
	if err != nil {
		return err
	}
	defer sub.Close()
	return c.dir(sub, tree.Join(rel, name))
}

func (c counter) entry(dir *os.File, name, rel string, st *unix.Stat_t) error {
	c.out.Files++
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		c.out.Bytes += st.Size
	}
	if st.Mtim.Nsec != 0 {
		c.out.Losses.Nanoseconds++
	}
	list, err := tree.XattrNames(tree.Under(dir, name))
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("list xattrs: %w", err)
	}
	for _, x := range list {
		c.out.Losses.xattr("/"+tree.Join(rel, name), x)
	}
	return nil
}

func (l *Losses) xattr(path, name string) {
	namespace, _, _ := strings.Cut(name, ".")
	switch {
	case strings.HasPrefix(name, "system.posix_acl_"):
		l.ACLs++
	case namespace != "user" && namespace != "trusted" && namespace != "security":
		l.Xattrs++
	default:
		return
	}
	if len(l.Paths) < maxLossPaths {
		l.Paths = append(l.Paths, path)
	}
}
