package secretscan

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
)

// LookAtLarge looks at the files of a change that are too large for the graft to show whole: those of now that before
// does not share. Those that are known were looked at by an earlier freeze. They are read again, from the page
// cache, when the session runs on; one that has gone since is not looked at.
func (s *Scanner) LookAtLarge(
	ctx context.Context, upper string, before, now *squashfs.Node, known map[*squashfs.Node]bool,
) error {
	root, err := tree.OpenDir(upper)
	if err != nil {
		return err
	}
	defer root.Close()
	return eachLarge("", before, now, known, func(path string) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return s.lookAtOne(root, path)
	})
}

// eachLarge calls fn for the large files below now that are not before's. What both share is passed over at once.
func eachLarge(at string, before, now *squashfs.Node, known map[*squashfs.Node]bool, fn func(path string) error) error {
	for _, e := range now.Children {
		var old *squashfs.Node
		if before != nil && before.Kind == squashfs.Dir {
			old = before.Child(e.Name)
		}
		if old == e.Node {
			continue
		}
		var err error
		switch path := tree.Join(at, e.Name); {
		case e.Node.Kind == squashfs.Dir:
			err = eachLarge(path, old, e.Node, known, fn)
		case e.Node.Kind == squashfs.File && e.Node.Data != nil && e.Node.Data.Size > maxLook && !known[e.Node]:
			err = fn(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookAtOne looks at a file of a user's who may change it meanwhile.
func (s *Scanner) lookAtOne(root *os.File, path string) error {
	f, err := tree.Open(root, path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := tree.StatFile(f)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	return s.LookLarge("/"+path, st.Size, f)
}

// maxLook is the size up to which files are shown whole to the search for secrets, as in a graft.
const maxLook = 1 << 20
