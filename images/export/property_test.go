package export

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/tree/treetest"
)

// vandal changes a directory at random. What cannot be done it leaves.
type vandal struct {
	*rand.Rand
	root string
}

func (v vandal) path() string {
	names := []string{"a", "b", "c", "a b", "new\nline", "\xff", "ü", "-rf"}
	path := filepath.Join(v.root, "usr")
	for range 1 + v.IntN(3) {
		path = filepath.Join(path, names[v.IntN(len(names))])
	}
	return path
}

func (v vandal) existing() string {
	path := filepath.Join(v.root, "usr")
	for range 1 + v.IntN(4) {
		list, err := os.ReadDir(path)
		if err != nil || len(list) == 0 {
			break
		}
		path = filepath.Join(path, list[v.IntN(len(list))].Name())
	}
	return path
}

func (v vandal) content() []byte {
	b := make([]byte, []int{0, 1, 5000, 1<<17 - 1, 1 << 17, 1<<17 + 1, 900000}[v.IntN(7)])
	for i := 0; i < len(b)/1000 && v.IntN(3) > 0; i++ {
		b[v.IntN(len(b))] = byte(v.Uint32())
	}
	return b
}

func (v vandal) work(times int) {
	for range times {
		v.one(v.path(), v.existing())
	}
}

func (v vandal) one(path, old string) {
	os.MkdirAll(filepath.Dir(path), 0o755)
	switch v.IntN(12) {
	case 0, 1, 2:
		v.write(path)
	case 3:
		os.Symlink(filepath.Base(old), path)
	case 4:
		unix.Mknod(path, []uint32{unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK}[v.IntN(3)]|0o640, int(unix.Mkdev(uint32(600+v.IntN(3000)), uint32(v.IntN(70000))))) // no driver has these
	case 5:
		os.Link(old, path)
	case 6:
		os.Rename(old, path)
	case 7:
		os.RemoveAll(old)
	case 8:
		os.RemoveAll(old)
		os.MkdirAll(filepath.Join(old, "again"), 0o755)
	case 9:
		unix.Fchmodat(unix.AT_FDCWD, old, uint32(v.IntN(0o10000)), unix.AT_SYMLINK_NOFOLLOW)
	case 10:
		os.Lchown(old, v.IntN(100000), v.IntN(100000))
	case 11:
		unix.Lsetxattr(old, []string{"user.a", "trusted.b"}[v.IntN(2)], []byte("value")[:v.IntN(6)], 0)
	}
}

// write makes a file, or another content in one that is there. It opens neither a device nor a fifo.
func (v vandal) write(path string) {
	if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() {
		return
	}
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, uint32(v.IntN(0o1000)))
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	f.Write(v.content())
}

// TestAnyEnvironmentIsTheSameInEveryForm makes random trees and random changes on a real overlay, and compares every
// form with what the kernel shows of the environment.
func TestAnyEnvironmentIsTheSameInEveryForm(t *testing.T) {
	seed := treetest.Seed(t)
	for round := range 5 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(round)))
			f := newFixture(t, func(root string) error {
				vandal{r, root}.work(r.IntN(200))
				return os.MkdirAll(filepath.Join(root, "usr"), 0o755)
			})
			env, tail, want := f.env(func(root string) error {
				vandal{r, root}.work(r.IntN(200))
				return nil
			})
			upper := f.thaw(env)
			same(t, want, f.shown(upper))
			if again, other := f.freeze(upper, f.at("again")); !bytes.Equal(tail, other) {
				t.Errorf("the thawed session freezes to another tail: %q", told(env.Root, again.Root))
			}
			_, base := layerOf(t, nil, f.base)
			_, top := layerOf(t, f.base, env)
			same(t, want, unstack(t, base, top))
			root := t.TempDir()
			out, err := Directory(t.Context(), DirectoryConfig{Env: env, Root: root, Digest: hexDigest})
			must(t, err)
			same(t, closed(tamed(want)), closed(treetest.List(t, filepath.Join(root, out.Path))))
			_, err = Rebuild(t.Context(), f.parts(tail))
			must(t, err)
			if t.Failed() {
				t.FailNow()
			}
		})
	}
}

// closed writes the modes of a list without the bits by which an owner reads, which a directory adds.
func closed(list []string) []string {
	out := make([]string, len(list))
	for i, line := range list {
		var mode uint32
		before, after, found := strings.Cut(line, " mode ")
		if _, err := fmt.Sscanf(after, "%o", &mode); err != nil || !found {
			panic(errors.Join(err, errors.New(line)))
		}
		bits := uint32(0o400)
		if mode&unix.S_IFMT == unix.S_IFDIR {
			bits = 0o500
		}
		out[i] = fmt.Sprintf("%s mode %o%s", before, mode&^bits, after[6:])
	}
	return out
}
