package changeset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// overlay is one as the kernel keeps it for a session.
type overlay struct {
	t      testing.TB
	upper  string
	layers []string
	option string // "userxattr," or nothing
}

func newOverlay(t testing.TB, option string, layers ...string) *overlay {
	t.Helper()
	testenv.Need(t, testenv.Root)
	o := &overlay{t: t, upper: filepath.Join(t.TempDir(), "upper"), layers: layers, option: option}
	must(t, os.Mkdir(o.upper, 0o755))
	return o
}

// change runs fn on the merged tree, so that the kernel makes the upper directory what it must be.
func (o *overlay) change(fn func(root string) error) {
	o.t.Helper()
	merged, work := o.t.TempDir(), o.t.TempDir()
	work = filepath.Join(filepath.Dir(o.upper), filepath.Base(work)+"work")
	must(o.t, os.Mkdir(work, 0o700))
	options := fmt.Sprintf("%slowerdir=%s,upperdir=%s,workdir=%s", o.option, strings.Join(o.layers, ":"), o.upper, work)
	must(o.t, unix.Mount("test", merged, "overlay", 0, options))
	err := fn(merged)
	must(o.t, unix.Unmount(merged, 0), err)
}

// lines describes the tree that an upper directory makes of the layers.
func lines(t testing.TB, option, upper string, layers ...string) []string {
	t.Helper()
	merged := t.TempDir()
	must(t, unix.Mount("test", merged, "overlay", unix.MS_RDONLY, option+"lowerdir="+strings.Join(append([]string{upper}, layers...), ":")))
	defer func() { must(t, unix.Unmount(merged, 0)) }()
	return treetest.List(t, merged)
}

func baseLayer(t testing.TB) string {
	t.Helper()
	testenv.Need(t, testenv.Root)
	root := t.TempDir()
	at := func(p string) string { return filepath.Join(root, p) }
	must(t,
		write(at("usr/gone"), "deleted"), write(at("usr/tree/a/b"), "deleted tree"), write(at("usr/tree/kept/c"), "c"),
		write(at("usr/opaque/old"), "must not come back"), write(at("usr/opaque/sub/old"), "nor this"),
		write(at("usr/file-to-dir"), "file"), write(at("usr/dir-to-file/x"), "x"), write(at("usr/moved/deep/er"), "moves"),
		write(at("usr/edited"), "before"), write(at("usr/touched"), "same"), write(at("usr/chowned"), "same"),
		write(at("usr/linked"), "one of two"), os.Link(at("usr/linked"), at("usr/linked-too")), os.Symlink("edited", at("usr/link")),
		os.MkdirAll(at("opt"), 0o755), os.Chown(at("opt"), 5, 6), os.Chmod(root, 0o755),
	)
	return root
}

func nasty(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	mk := func(p string, mode uint32, dev int) error { return unix.Mknod(at(p), mode, dev) }
	capability := []byte("\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	return errors.Join(
		os.Remove(at("usr/gone")), os.RemoveAll(at("usr/tree/a")),
		os.RemoveAll(at("usr/opaque")), write(at("usr/opaque/new"), "new"), os.MkdirAll(at("usr/opaque/sub"), 0o700),
		os.Remove(at("usr/file-to-dir")), write(at("usr/file-to-dir/inside"), "in"),
		os.RemoveAll(at("usr/dir-to-file")), write(at("usr/dir-to-file"), "file"),
		exec.Command("mv", at("usr/moved"), at("opt/moved")).Run(),
		write(at("usr/edited"), "after"), os.Chmod(at("usr/edited"), 0o640), os.Chown(at("usr/chowned"), 1234, 70001),
		os.Chtimes(at("usr/touched"), time.Unix(1234567890, 5e8), time.Unix(1234567890, 123456789)),
		os.Remove(at("usr/link")), os.Symlink("/nowhere/at all", at("usr/link")),
		write(at("opt/x/hard1"), "hard"), os.MkdirAll(at("opt/y"), 0o755), os.Link(at("opt/x/hard1"), at("opt/y/hard2")),
		mk("opt/fifo", unix.S_IFIFO|0o640, 0), mk("opt/chr", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 300))), mk("opt/blk", unix.S_IFBLK|0o660, int(unix.Mkdev(259, 7))),
		mk("opt/socket", unix.S_IFSOCK|0o600, 0),
		write(at("opt/suid"), "s"), os.Chmod(at("opt/suid"), os.ModeSetuid|os.ModeSetgid|0o755),
		write(at("opt/xattr"), "x"), unix.Setxattr(at("opt/xattr"), "user.note", bytes.Repeat([]byte("v\x00"), 300), 0),
		unix.Setxattr(at("opt/xattr"), "user.with=sign", nil, 0), unix.Setxattr(at("opt/y"), "trusted.dir", []byte{0, 1}, 0),
		write(at("opt/cap"), "c"), unix.Setxattr(at("opt/cap"), "security.capability", capability, 0),
		sparse(at("opt/sparse"), 9<<20, 6<<20), sparse(at("opt/hole"), 16<<20, -1), write(at("opt/empty"), ""),
		write(at("opt/big"), strings.Repeat("0123456789abcdef", 100_000)),
		write(at("opt/new\nline"), "1"), write(at("opt/Grüße ☃"), "2"), write(at("opt/.wh.name"), "3"), write(at("opt/\xff\xfe"), "4"), write(at("opt/ -rf *"), "5"),
		write(at("opt/old"), "1969"), os.Chtimes(at("opt/old"), time.Unix(-5, 0), time.Unix(-5, 7)),
		write(at("opt/locked/in"), "x"), os.Chmod(at("opt/locked"), 0), os.Symlink("gone", at("opt/dangling")),
		os.Chown(root, 3, 4), os.Chmod(root, 0o751), os.Chtimes(root, time.Unix(1.5e9, 0), time.Unix(1.5e9, 0)),
	)
}

// sparse makes a file of one hole, with a byte at at.
func sparse(path string, size, at int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if at >= 0 && err == nil {
		_, err = f.WriteAt([]byte("x"), at)
	}
	return errors.Join(err, f.Close())
}

func packed(t testing.TB, cfg Config) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, Pack(t.Context(), cfg, &b))
	return b.Bytes()
}

func unpacked(t testing.TB, stream []byte, target Target) string {
	t.Helper()
	target.Dir = t.TempDir()
	upper, err := Unpack(context.Background(), bytes.NewReader(stream), target)
	must(t, err)
	if left, err := os.ReadDir(target.Dir); len(left) != 1 || err != nil {
		t.Errorf("beside the changes there is more: %v, %v", left, err)
	}
	return upper
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write makes a file with all directories above it.
func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
