package images

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// gardener changes a tree at random. What a change cannot do (a name that is taken, a rename that overlayfs refuses) it
// leaves.
type gardener struct {
	*rand.Rand
	root string
}

func (g gardener) path() string {
	names := []string{"a", "b", "c", "Zz", "a b", "new\nline", "\xff", ".wh.a", "ü"}
	path := filepath.Join(g.root, []string{"usr", "opt", "srv", "etc", "tmp", "home", "root", ""}[g.IntN(8)])
	for range 1 + g.IntN(4) {
		path = filepath.Join(path, names[g.IntN(len(names))])
	}
	return path
}

// existing finds a path that is there, mostly.
func (g gardener) existing() string {
	path := g.root
	for range 1 + g.IntN(5) {
		list, err := os.ReadDir(path)
		if err != nil || len(list) == 0 {
			return path
		}
		path = filepath.Join(path, list[g.IntN(len(list))].Name())
	}
	return path
}

func (g gardener) content() []byte {
	b := make([]byte, []int{0, 1, 100, 5000, 1<<17 - 1, 1 << 17, 1<<17 + 1, 300000, 900000}[g.IntN(9)])
	switch g.IntN(3) {
	case 0:
		for i := range b {
			b[i] = byte(g.Uint32())
		}
	case 1:
		copy(b, bytes.Repeat([]byte("compressible "), len(b)/13))
	}
	return b
}

func (g gardener) tend(times int) {
	for range times {
		g.one(g.path(), g.existing())
	}
}

func (g gardener) one(path, old string) {
	deep := len(old) > len(g.root)+4 // else little would be left
	kind := g.IntN(16)
	if kind < 9 {
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	switch kind {
	case 0, 1, 2, 3:
		if st, err := os.Stat(path); err != nil || st.Mode().IsRegular() { // a fifo would wait for ever, and a device is the host's
			_ = os.WriteFile(path, g.content(), os.FileMode(g.IntN(0o1000)))
		}
	case 4:
		_ = os.Symlink(filepath.Base(old), path)
	case 5:
		mode := []uint32{unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK}[g.IntN(4)] | 0o640
		_ = unix.Mknod(path, mode, int(unix.Mkdev(uint32(1+g.IntN(300)), uint32(g.IntN(70000)))))
	case 6, 7:
		_ = os.Link(old, path)
	case 8:
		_ = os.Rename(old, path)
	case 9:
		_ = os.Remove(old)
	case 10, 11:
		if deep {
			_ = os.RemoveAll(old)
		}
		if deep && kind == 11 {
			_ = os.MkdirAll(filepath.Join(old, "again"), 0o755)
		}
	default:
		g.attribute(old)
	}
}

func (g gardener) attribute(path string) {
	switch g.IntN(5) {
	case 0:
		_ = unix.Fchmodat(unix.AT_FDCWD, path, uint32(g.IntN(0o10000)), unix.AT_SYMLINK_NOFOLLOW)
	case 1:
		_ = os.Lchown(path, g.IntN(100000), g.IntN(100000))
	case 2:
		at := unix.Timespec{Sec: g.Int64N(1 << 32), Nsec: g.Int64N(2)}
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	case 3:
		_ = unix.Lsetxattr(path, []string{"user.a", "trusted.b", "trusted.c"}[g.IntN(3)], bytes.Repeat([]byte("v"), 1+g.IntN(300)), 0)
	case 4:
		if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() {
			_ = os.Truncate(path, g.Int64N(3<<19))
		}
	}
}

// plain takes from a tree what an image's layers do not hold: names of one file that is no regular one, and sockets.
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

// push makes what was changed so far a layer of the image, whiteouts and all.
func (f *fixture) push() {
	f.t.Helper()
	layer := filepath.Join(f.dir, "pushed"+strings.Repeat("+", len(f.layers)))
	must(f.t, os.Rename(f.upper, layer), os.Mkdir(f.upper, 0o755))
	f.layers = append([]string{layer}, f.layers...)
}

// declared lists what of the merged tree no image holds: what is stripped, sockets, and the session's devices.
func (f *fixture) declared(l *Library) []string {
	f.t.Helper()
	var out []string
	f.look(func(root string) error {
		return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			rel := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
			if err != nil || rel == "" {
				return err
			}
			_, own := os.Lstat(filepath.Join(f.upper, rel))
			if d.Type() != fs.ModeSocket && (d.Type()&fs.ModeDevice == 0 || own != nil) && !stripped(l, rel) {
				return nil
			}
			out = append(out, rel)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
	})
	return out
}

// look runs fn on the merged tree, which cannot be changed.
func (f *fixture) look(fn func(root string) error) {
	f.t.Helper()
	merged := filepath.Join(f.dir, "merged")
	options := "redirect_dir=follow,metacopy=on,lowerdir=" + strings.Join(append([]string{f.upper}, f.layers...), ":")
	must(f.t, unix.Mount("test", merged, "overlay", unix.MS_RDONLY, options))
	err := fn(merged)
	must(f.t, errors.Join(err, unix.Unmount(merged, 0)))
}

func stripped(l *Library, path string) bool {
	rules := l.strip.Top()
	for name := range strings.SplitSeq(path, "/") {
		hit, below := rules.Enter(name)
		if hit {
			return true
		}
		rules = below
	}
	return false
}
