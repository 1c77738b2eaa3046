package graft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// gardener changes a tree at random. What a change cannot do (a name that is taken, a rename that overlayfs refuses) it
// leaves.
type gardener struct {
	r    *rand.Rand
	root string
}

func (g *gardener) path() string {
	names := []string{"a", "b", "c", "Zz", "a b", "new\nline", "\xff", ".wh.a", "stripped", "ü"}
	path := filepath.Join(g.root, []string{"usr", "opt", "srv", "etc", "tmp", ""}[g.r.IntN(6)])
	for range 1 + g.r.IntN(4) {
		path = filepath.Join(path, names[g.r.IntN(len(names))])
	}
	return path
}

// existing finds a path that is there, mostly.
func (g *gardener) existing() string {
	path := g.root
	for range 1 + g.r.IntN(5) {
		list, err := os.ReadDir(path)
		if err != nil || len(list) == 0 {
			return path
		}
		name := list[g.r.IntN(len(list))].Name()
		if name == runtimeDir {
			return path // the base's stays, whatever the session does to it
		}
		path = filepath.Join(path, name)
	}
	return path
}

func (g *gardener) content() []byte {
	size := []int{0, 1, 100, 5000, 1<<17 - 1, 1 << 17, 1<<17 + 1, 300000, 1200000}[g.r.IntN(9)]
	b := make([]byte, size)
	switch g.r.IntN(3) {
	case 0:
		copy(b, random(size))
	case 1:
		copy(b, bytes.Repeat([]byte("compressible "), size/13))
	}
	return b
}

func (g *gardener) tend(times int) {
	for range times {
		g.one()
	}
}

func (g *gardener) one() {
	path, old := g.path(), g.existing()
	switch g.r.IntN(20) {
	case 0, 1, 2, 3:
		g.file(path)
	case 4:
		os.MkdirAll(path, 0o755)
	case 5:
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.Symlink(filepath.Base(old), path)
	case 6:
		os.MkdirAll(filepath.Dir(path), 0o755)
		unix.Mknod(path, []uint32{unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK}[g.r.IntN(4)]|0o640, int(unix.Mkdev(uint32(1+g.r.IntN(300)), uint32(g.r.IntN(70000)))))
	case 7, 8:
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.Link(old, path)
	case 9, 10:
		os.Rename(old, path)
	case 11:
		os.Remove(old)
	case 12:
		if len(old) > len(g.root)+4 { // else little would be left
			os.RemoveAll(old)
		}
	case 13:
		if len(old) > len(g.root)+4 {
			os.RemoveAll(old)
			os.MkdirAll(filepath.Join(old, "again"), 0o755)
		}
	default:
		g.attribute(old)
	}
}

// file makes or overwrites a regular file. What is none is left: a fifo would wait for ever, a device is the host's,
// and a link may lead to the runtime's directory, of which a graft takes nothing.
func (g *gardener) file(path string) {
	os.MkdirAll(filepath.Dir(path), 0o755)
	content, mode := g.content(), os.FileMode(g.r.IntN(0o1000))
	if st, err := os.Lstat(path); err != nil || st.Mode().IsRegular() {
		os.WriteFile(path, content, mode)
	}
}

func (g *gardener) attribute(path string) {
	switch g.r.IntN(6) {
	case 0:
		unix.Fchmodat(unix.AT_FDCWD, path, uint32(g.r.IntN(0o10000)), unix.AT_SYMLINK_NOFOLLOW)
	case 1:
		os.Lchown(path, g.r.IntN(100000), g.r.IntN(100000))
	case 2:
		at := unix.Timespec{Sec: g.r.Int64N(1 << 32), Nsec: g.r.Int64N(2)}
		unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	case 3:
		unix.Lsetxattr(path, []string{"user.a", "trusted.b", "trusted.c"}[g.r.IntN(3)], []byte(random(g.r.IntN(300))), 0)
	case 4:
		g.write(path)
	case 5:
		if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() {
			os.Truncate(path, int64(g.r.IntN(1<<19)))
		}
	}
}

// write changes a file in its middle, or far behind its end.
func (g *gardener) write(path string) {
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	f.WriteAt([]byte("written"), g.r.Int64N(3<<20))
}

// TestAnyChangeOfAnyTree makes random trees and random changes on a real overlay, some of them while the graft runs,
// and compares what the kernel shows of overlay and image. After each graft the changes go on.
func TestAnyChangeOfAnyTree(t *testing.T) {
	seed := treetest.Seed(t)
	for round := range testenv.Rounds(2, 12) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			f := newFixture(t, func(root string) error {
				(&gardener{r, root}).tend(r.IntN(250))
				return errors.Join(fillMissing(root), plain(root))
			})
			g := &gardener{r, f.merged}
			for range 3 {
				g.tend(r.IntN(150))
				must(t, fillMissing(f.merged))
				result, tail := f.graft(func(c *Config) {
					c.Pause = func(context.Context) error {
						g.tend(r.IntN(20))
						return fillMissing(f.merged)
					}
				})
				f.equal(f.list(), result, tail)
				if t.Failed() {
					t.FailNow()
				}
			}
		})
	}
}

// plain takes from a base what mksquashfs would not keep as it is, or no base should hold: links of what is no regular
// file, and sockets.
func plain(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		if d.Type() == fs.ModeSocket || st.Nlink > 1 && !d.Type().IsRegular() {
			return os.Remove(path)
		}
		return nil
	})
}

// fillMissing puts back what of the skeleton is gone, so that the graft has nothing to add.
func fillMissing(root string) error {
	for _, e := range skeleton() {
		if _, err := os.Lstat(filepath.Join(root, e.path)); err == nil {
			continue
		}
		if err := write(filepath.Join(root, e.path), "put back"); err != nil && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}
