package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/graft"
	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// fixture is a base, as a file and mounted, and an overlay over it as an engine keeps it for a session.
type fixture struct {
	t      testing.TB
	dir    string
	base   *squashfs.Image
	merged string
}

// newFixture makes the base of what fill writes.
func newFixture(t testing.TB, fill func(root string) error) *fixture {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Mksquashfs, testenv.Loop)
	f := &fixture{t: t, dir: t.TempDir()}
	f.merged = f.at("merged")
	for _, d := range []string{"lower", "merged", "upper", "work"} {
		must(t, os.Mkdir(f.at(d), 0o755))
	}
	must(t, fill(f.at("lower")))
	for _, d := range []string{"home", "run", "tmp", "var/tmp"} { // as every base has them: the time of one that it lacks tells who made it
		must(t, os.MkdirAll(filepath.Join(f.at("lower"), d), 0o755))
	}
	f.base = pack(t, f.at("lower"), f.at("base"))
	f.overlay(f.merged, f.at("upper"), f.at("work"))
	return f
}

func (f *fixture) at(p string) string { return filepath.Join(f.dir, p) }

// overlay mounts the base with an upper directory.
func (f *fixture) overlay(point, upper, work string) {
	f.t.Helper()
	lower := mount(f.t, f.at("base"))
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,redirect_dir=off,metacopy=off,index=off", lower, upper, work)
	must(f.t, unix.Mount("test", point, "overlay", 0, options))
	f.t.Cleanup(func() { must(f.t, unix.Unmount(point, 0)) })
}

// pack makes a squashfs of a directory.
func pack(t testing.TB, dir, to string) *squashfs.Image {
	t.Helper()
	run(t, "mksquashfs", dir, to, "-noappend", "-no-progress", "-quiet", "-comp", "zstd", "-Xcompression-level", "1")
	return parse(t, to)
}

func parse(t testing.TB, path string) *squashfs.Image {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	must(t, err)
	image, err := squashfs.Parse(f, st.Size())
	must(t, err)
	return image
}

// mount lets the kernel mount a squashfs.
func mount(t testing.TB, image string) string {
	t.Helper()
	point := t.TempDir()
	run(t, "mount", "-t", "squashfs", "-o", "loop,ro", image, point)
	t.Cleanup(func() { must(t, unix.Unmount(point, 0)) })
	return point
}

func run(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", argv, err, out)
	}
	return string(out)
}

// freeze grafts an upper directory and writes the whole environment to a file.
func (f *fixture) freeze(upper, to string) (*squashfs.Image, []byte) {
	f.t.Helper()
	strip, err := tree.NewStrip(nil)
	must(f.t, err)
	var tail bytes.Buffer
	r, err := graft.Graft(f.t.Context(), graft.Config{Base: f.base, Upper: upper, Strip: strip, Out: &tail})
	must(f.t, err)
	whole, err := os.ReadFile(f.at("base"))
	must(f.t, err)
	super := r.Super.Bytes()
	image := append(append(super[:], whole[len(super):f.base.Cut()]...), tail.Bytes()...)
	must(f.t, os.WriteFile(to, image, 0o644))
	return parse(f.t, to), append(tail.Bytes(), super[:]...)
}

// env freezes the session of the fixture, after change, and gives what the kernel shows of it.
func (f *fixture) env(change func(root string) error) (*squashfs.Image, []byte, []string) {
	f.t.Helper()
	must(f.t, change(f.merged))
	env, tail := f.freeze(f.at("upper"), f.at("env"))
	return env, tail, treetest.List(f.t, mount(f.t, f.at("env")))
}

func must(t testing.TB, list ...error) {
	t.Helper()
	if err := errors.Join(list...); err != nil {
		t.Fatal(err)
	}
}

func same(t testing.TB, want, got []string) {
	t.Helper()
	for i, d := range treetest.Diff(want, got) {
		if t.Error(d); i == 20 {
			t.Fatal("and so on")
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

func nastyBase(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	return errors.Join(
		write(at("usr/gone"), "deleted"), write(at("usr/tree/a/b"), "deleted tree"), write(at("usr/stays"), "stays"),
		write(at("usr/opaque/old"), "must not come back"), write(at("usr/opaque/sub/old"), "nor this"),
		write(at("usr/file-to-dir"), "file"), write(at("usr/dir-to-file/x"), "x"),
		write(at("usr/edited"), "before"), write(at("usr/touched"), "same"), write(at("usr/chowned"), strings.Repeat("same ", 1<<17)),
		write(at("usr/linked"), "one of three"), os.Link(at("usr/linked"), at("usr/linked-too")), os.Link(at("usr/linked"), at("usr/lib-linked")),
		write(at("usr/kept/deep/er/still/here"), "kept"), write(at("usr/kept/edited"), "1"), os.Symlink("edited", at("usr/link")),
		write(at("srv/deep/er/f"), "list"), os.Chmod(at("srv/deep"), 0o2751), os.Chown(at("srv/deep"), 7, 8),
		unix.Setxattr(at("srv/deep"), "user.of", []byte("a parent"), 0), os.Chtimes(at("srv/deep"), time.Unix(2e9, 0), time.Unix(2e9, 0)),
		unix.Mknod(at("usr/chr"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 300))), sparseFile(at("usr/sparse")),
		unix.Mknod(at("usr/blk"), unix.S_IFBLK|0o640, int(unix.Mkdev(259, 70000))),
	)
}

func nastyChanges(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	mk := func(p string, mode uint32, dev uint64) error { return unix.Mknod(at(p), mode, int(dev)) }
	capability := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	capability = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(capability, 0x2000), 0)
	return errors.Join(
		os.Remove(at("usr/gone")), os.RemoveAll(at("usr/tree")),
		os.RemoveAll(at("usr/opaque")), write(at("usr/opaque/new"), "new"),
		os.Remove(at("usr/file-to-dir")), write(at("usr/file-to-dir/inside"), "in"),
		os.RemoveAll(at("usr/dir-to-file")), write(at("usr/dir-to-file"), "file"),
		write(at("usr/edited"), "after"), os.Chmod(at("usr/edited"), 0o640), os.Chown(at("usr/chowned"), 1234, 3000001),
		os.Chtimes(at("usr/touched"), time.Unix(1234567890, 0), time.Unix(1234567890, 0)),
		os.Chmod(at("usr/linked-too"), 0o600), os.Remove(at("usr/link")), os.Symlink("/nowhere/at all", at("usr/link")),
		write(at("usr/kept/edited"), "2"), write(at("srv/deep/er/f"), "edited"), os.Chmod(at("usr/chr"), 0o640),
		write(at("opt/x/hard1"), "hard"), os.MkdirAll(at("opt/y"), 0o755), os.Link(at("opt/x/hard1"), at("opt/y/hard2")), os.Link(at("opt/y/hard2"), at("usr/hard3")),
		mk("opt/fifo", unix.S_IFIFO|0o640, 0), mk("opt/chr", unix.S_IFCHR|0o600, unix.Mkdev(1, 300)), mk("opt/blk", unix.S_IFBLK|0o660, unix.Mkdev(259, 70000)),
		write(at("opt/suid"), "s"), os.Chmod(at("opt/suid"), os.ModeSetuid|os.ModeSetgid|0o755),
		write(at("opt/xattr"), "x"), unix.Setxattr(at("opt/xattr"), "user.note", bytes.Repeat([]byte("v\x00"), 600), 0),
		unix.Lsetxattr(at("usr/link"), "trusted.link", []byte("on a link"), 0), unix.Setxattr(at("opt/y"), "trusted.dir", []byte{0, 1}, 0),
		write(at("opt/cap"), "c"), unix.Setxattr(at("opt/cap"), "security.capability", capability, 0), os.Link(at("opt/cap"), at("opt/cap-too")),
		sparseFile(at("opt/sparse")), write(at("opt/empty"), ""), write(at("opt/large"), strings.Repeat("large ", 3<<20)),
		write(at("opt/new\nline"), "1"), write(at("opt/Grüße ☃"), "2"), write(at("opt/\xff\xfe"), "4"), write(at("opt/ -rf *"), "5"),
		write(at("opt/"+strings.Repeat("long/", 60)+"name"), "6"), os.Symlink(strings.Repeat("t", 300), at("opt/far")),
		write(at("opt/locked"), "secret"), os.Chmod(at("opt/locked"), 0), os.Symlink("gone", at("opt/dangling")),
		os.Mkdir(at("opt/closed"), 0o700), os.Chmod(at("opt/closed"), 0), os.Chmod(at("usr/kept/deep"), 0o500),
		os.Chown(root, 3, 4), os.Chmod(root, 0o751), os.Chtimes(root, time.Unix(1500000000, 0), time.Unix(1500000000, 0)),
	)
}

func sparseFile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{1}, 16<<20)
	return errors.Join(err, f.Truncate(40<<20), f.Close())
}
