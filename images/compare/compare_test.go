package compare

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

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/testenv"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fixture is a session's overlay, and the squashfs of what lies below it: equal trees until somebody changes one.
type fixture struct {
	t                    testing.TB
	dir                  string
	lower, upper, merged string
	packed               string
	strip                *tree.Strip
}

func newFixture(t testing.TB, fill func(at func(string) string) error) *fixture {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Mksquashfs)
	dir := t.TempDir()
	at := func(p string) string { return filepath.Join(dir, p) }
	f := &fixture{t: t, dir: dir, lower: at("lower"), upper: at("upper"), merged: at("merged"), packed: at("packed")}
	for _, d := range []string{"lower", "upper", "merged", "work", "point", "mount"} {
		must(t, os.Mkdir(at(d), 0o755))
	}
	must(t, fill(func(p string) string { return filepath.Join(f.lower, p) }))
	out, err := exec.Command("mksquashfs", f.lower, f.packed, "-noappend", "-no-progress", "-quiet", "-comp", "zstd", "-Xcompression-level", "1").CombinedOutput()
	if err != nil {
		t.Fatalf("mksquashfs: %v: %s", err, out)
	}
	f.strip, err = tree.NewStrip([]string{"/usr/stripped"})
	must(t, err, os.Chtimes(f.upper, stamp, stamp))
	return f
}

// change runs fn on the merged tree, so that the kernel makes the upper directory what it must be.
func (f *fixture) change(fn func(at func(string) string) error) {
	f.t.Helper()
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", f.lower, f.upper, filepath.Join(f.dir, "work"))
	must(f.t, unix.Mount("test", f.merged, "overlay", 0, options))
	err := fn(func(p string) string { return filepath.Join(f.merged, p) })
	must(f.t, unix.Unmount(f.merged, 0), err, os.Chtimes(f.upper, stamp, stamp))
}

func (f *fixture) config() Config {
	f.t.Helper()
	root, err := tree.Merged([]string{f.upper, f.lower}, filepath.Join(f.dir, "point"))
	must(f.t, err)
	f.t.Cleanup(func() { root.Close() })
	return Config{Session: root, Strip: f.strip}
}

func (f *fixture) image() *squashfs.Image {
	f.t.Helper()
	file, err := os.Open(f.packed)
	must(f.t, err)
	f.t.Cleanup(func() { file.Close() })
	st, err := file.Stat()
	must(f.t, err)
	image, err := squashfs.Parse(file, st.Size())
	must(f.t, err)
	return image
}

// mount returns the root of the kernel's mount of the environment.
func (f *fixture) mount() *os.File {
	f.t.Helper()
	testenv.Need(f.t, testenv.Loop)
	point := filepath.Join(f.dir, "mount")
	if out, err := exec.Command("mount", "-t", "squashfs", "-o", "loop,ro", f.packed, point).CombinedOutput(); err != nil {
		f.t.Fatalf("mount: %v: %s", err, out)
	}
	root, err := tree.OpenDir(point)
	must(f.t, err)
	must(f.t, unix.Unmount(point, unix.MNT_DETACH))
	f.t.Cleanup(func() { root.Close() })
	return root
}

// compare compares through our reader and through the kernel, which must find the same.
func (f *fixture) compare(change func(*Config)) Result {
	f.t.Helper()
	cfg := f.config()
	if change != nil {
		change(&cfg)
	}
	cfg.Image = f.image()
	own, err := Trees(f.t.Context(), cfg)
	must(f.t, err)
	cfg.Image, cfg.Environment = nil, f.mount()
	kernel, err := Trees(f.t.Context(), cfg)
	must(f.t, err)
	if d := cmp.Diff(kernel, own); d != "" {
		f.t.Errorf("the kernel's mount gives another result than our reader (-kernel +ours):\n%s", d)
	}
	return own
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

var stamp = time.Unix(1500000000, 0)

// settled gives all of a tree one time, links too.
func settled(root string) error {
	return filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		at := []unix.Timespec{{Sec: stamp.Unix()}, {Sec: stamp.Unix()}}
		return errors.Join(err, unix.UtimesNanoAt(unix.AT_FDCWD, path, at, unix.AT_SYMLINK_NOFOLLOW))
	})
}

func sparse(path string, size int64, at ...int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for _, off := range at {
		if _, err := f.WriteAt([]byte("data"), off); err != nil {
			return err
		}
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func plenty(at func(string) string) error {
	return errors.Join(
		write(at("etc/file"), "content"), write(at("etc/empty"), ""), write(at("usr/big"), strings.Repeat("0123456789abcdef", 40000)),
		write(at("usr/linked"), "one of two"), os.Link(at("usr/linked"), at("usr/linked-too")), write(at("usr/alone"), "one of two"),
		os.Symlink("file", at("etc/link")), os.MkdirAll(at("usr/dir/sub"), 0o755), write(at("usr/dir/sub/leaf"), "leaf"),
		unix.Mknod(at("usr/chr"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 300))), unix.Mknod(at("usr/blk"), unix.S_IFBLK|0o600, int(unix.Mkdev(259, 70000))),
		unix.Mkfifo(at("usr/fifo"), 0o640), unix.Mknod(at("usr/socket"), unix.S_IFSOCK|0o700, 0),
		write(at("usr/attr"), "a"), unix.Setxattr(at("usr/attr"), "user.a", []byte("value"), 0), unix.Setxattr(at("usr/attr"), "trusted.b", nil, 0),
		unix.Setxattr(at("usr/dir"), "user.d", []byte("dir"), 0), unix.Lsetxattr(at("etc/link"), "trusted.l", []byte("link"), 0),
		write(at("usr/new\nline"), "1"), write(at("usr/\xff\xfe"), "2"), sparse(at("usr/sparse"), 40<<20, 0, 17<<20+5, 30<<20),
		os.Chmod(at("usr/big"), os.ModeSetuid|0o711), settled(at("")),
	)
}

func TestEqualTrees(t *testing.T) {
	f := newFixture(t, plenty)
	r := f.compare(nil)
	if r.Differences != 0 || len(r.First) != 0 || r.Paths < 20 || r.Bytes < 40<<20 {
		t.Errorf("%+v", r)
	}
}

// keep undoes what a change did to the times of a file and of the directory above it.
func keep(path string, errs ...error) error {
	return errors.Join(append(errs, os.Chtimes(path, stamp, stamp), os.Chtimes(filepath.Dir(path), stamp, stamp))...)
}

// TestEachDifferenceIsFound changes one thing at a time.
func TestEachDifferenceIsFound(t *testing.T) {
	patch := func(path string, off int64) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("X"), off)
		return errors.Join(err, f.Close())
	}
	type at = func(string) string
	for name, tc := range map[string]struct {
		change func(at at) error
		want   []string
	}{
		"mode":        {func(at at) error { return os.Chmod(at("etc/file"), 0o755) }, []string{"/etc/file: mode 0755 in the session, 0644 in the environment"}},
		"set-id bits": {func(at at) error { return os.Chmod(at("usr/big"), 0o711) }, []string{"/usr/big: mode 0711 in the session, 4711 in the environment"}},
		"owner":       {func(at at) error { return os.Lchown(at("etc/link"), 7, 70000) }, []string{"/etc/link: owner 7:70000 in the session, 0:0 in the environment"}},
		"time":        {func(at at) error { return os.Chtimes(at("usr/dir/sub"), stamp, stamp.Add(time.Second)) }, []string{"/usr/dir/sub: time 1500000001 in the session, 1500000000 in the environment"}},
		"root":        {func(at at) error { return os.Chmod(at(""), 0o700) }, []string{"/: mode 0700 in the session, 0755 in the environment"}},
		"content":     {func(at at) error { return keep(at("etc/file"), os.WriteFile(at("etc/file"), []byte("consent"), 0)) }, []string{"/etc/file: its content differs from byte 3 on"}},
		"far content": {func(at at) error {
			return keep(at("usr/big"), patch(at("usr/big"), 600001), os.Chmod(at("usr/big"), os.ModeSetuid|0o711))
		}, []string{"/usr/big: its content differs from byte 600001 on"}},
		"in a hole": {func(at at) error { return keep(at("usr/sparse"), patch(at("usr/sparse"), 9<<20)) }, []string{"/usr/sparse: its content differs from byte 9437184 on"}},
		"a new hole": {func(at at) error {
			return keep(at("usr/sparse"), os.Truncate(at("usr/sparse"), 20<<20), os.Truncate(at("usr/sparse"), 40<<20))
		}, []string{"/usr/sparse: its content differs from byte 31457280 on"}},
		"size": {func(at at) error { return keep(at("etc/empty"), os.Truncate(at("etc/empty"), 5000)) }, []string{"/etc/empty: size 5000 in the session, 0 in the environment"}},
		"link": {func(at at) error { return keepLink(at("etc/link"), "else") }, []string{`/etc/link: a link to "else" in the session, "file" in the environment`}},
		"device": {func(at at) error {
			return keep(at("usr/blk"), os.Remove(at("usr/blk")), unix.Mknod(at("usr/blk"), unix.S_IFBLK|0o600, int(unix.Mkdev(259, 65536))))
		}, []string{"/usr/blk: device 259:65536 in the session, 259:70000 in the environment"}},
		"kind": {func(at at) error {
			return keep(at("usr/fifo"), os.Remove(at("usr/fifo")), os.Mkdir(at("usr/fifo"), 0o755))
		}, []string{"/usr/fifo: a directory in the session, a fifo in the environment"}},
		"gone": {func(at at) error {
			return keep(at("usr/dir"), os.RemoveAll(at("usr/dir")), os.Mkdir(at("usr/dir"), 0o755), unix.Setxattr(at("usr/dir"), "user.d", []byte("dir"), 0))
		}, []string{"/usr/dir/sub: nothing in the session, a directory in the environment"}},
		"new":           {func(at at) error { return keep(at("etc/new"), write(at("etc/new"), "x")) }, []string{"/etc/new: a file in the session, nothing in the environment"}},
		"odd name":      {func(at at) error { return keep(at("etc/a\x1b[2Jb"), write(at("etc/a\x1b[2Jb"), "x")) }, []string{`"/etc/a\x1b[2Jb": a file in the session, nothing in the environment`}},
		"xattr value":   {func(at at) error { return unix.Setxattr(at("usr/attr"), "user.a", []byte("other"), 0) }, []string{`/usr/attr: xattr "user.a" has another value in the environment`}},
		"xattr gone":    {func(at at) error { return unix.Removexattr(at("usr/attr"), "trusted.b") }, []string{`/usr/attr: xattr "trusted.b" only in the environment`}},
		"xattr new":     {func(at at) error { return unix.Setxattr(at("usr/chr"), "trusted.z", nil, 0) }, []string{`/usr/chr: xattr "trusted.z" only in the session`}},
		"xattr of link": {func(at at) error { return unix.Lsetxattr(at("etc/link"), "trusted.l", []byte("x"), 0) }, []string{`/etc/link: xattr "trusted.l" has another value in the environment`}},
		"xattr of dir":  {func(at at) error { return unix.Setxattr(at("usr/dir"), "user.e", nil, 0) }, []string{`/usr/dir: xattr "user.e" only in the session`}},
		"links apart": {func(at at) error {
			return errors.Join(keep(at("usr/linked-too"), os.Remove(at("usr/linked-too")), write(at("usr/linked-too"), "one of two")))
		}, []string{"/usr/linked-too: it is one file with other names than in the environment"}},
		"another link": {func(at at) error {
			return errors.Join(os.Remove(at("usr/alone")), os.Remove(at("usr/linked-too")), write(at("usr/linked-too"), "one of two"), os.Remove(at("usr/linked")),
				os.Link(at("usr/linked-too"), at("usr/linked")), keep(at("usr/linked"), os.Link(at("usr/linked"), at("usr/alone"))))
		}, []string{"/usr/linked: it is one file with other names than in the environment"}},
		"a stripped file": {func(at at) error {
			return keep(at("usr/stripped/x"), write(at("usr/stripped/x"), "x"), keep(at("usr/stripped")))
		}, nil},
		"a socket": {func(at at) error { return keep(at("etc/s"), unix.Mknod(at("etc/s"), unix.S_IFSOCK|0o700, 0)) }, nil},
		"a device": {func(at at) error {
			return keep(at("etc/d"), unix.Mknod(at("etc/d"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		}, nil},
		"the runtime": {func(at at) error { return keep(at(".singularity.d"), write(at(".singularity.d/x"), "x")) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, plenty)
			f.change(tc.change)
			r := f.compare(nil)
			if d := cmp.Diff(append([]string{}, tc.want...), r.First); d != "" || r.Differences != int64(len(tc.want)) {
				t.Errorf("%d differences (-want +got):\n%s", r.Differences, d)
			}
		})
	}
}

func keepLink(path, target string) error {
	return errors.Join(os.Remove(path), os.Symlink(target, path), unix.Lsetxattr(path, "trusted.l", []byte("link"), 0), settled(path), os.Chtimes(filepath.Dir(path), stamp, stamp))
}

func TestWhatTheFreezeDeclaresIsNoDifference(t *testing.T) {
	f := newFixture(t, func(at func(string) string) error {
		return errors.Join(write(at("etc/x"), "x"), write(at("usr/stripped/deep/x"), "must not be there"), write(at("var/tmp/x"), "x"),
			write(at(".singularity.d/run"), "x"), os.MkdirAll(at("dev"), 0o755), settled(at("")))
	})
	f.change(func(at func(string) string) error {
		return errors.Join(os.RemoveAll(at("dev")), os.RemoveAll(at("var")), settled(at("")))
	})
	r := f.compare(func(c *Config) { c.Added = []string{"/dev", "/var", "/var/tmp"} })
	want := []string{"/usr/stripped: a directory in the environment, where a strip rule wants nothing", "/var/tmp/x: nothing in the session, a file in the environment"}
	if d := cmp.Diff(want, r.First); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWhatSquashfsCannotHoldIsCounted(t *testing.T) {
	f := newFixture(t, plenty)
	f.change(func(at func(string) string) error {
		half := func(p string, sec int64) error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, at(p), []unix.Timespec{{Sec: sec, Nsec: 5e8}, {Sec: sec, Nsec: 5e8}}, unix.AT_SYMLINK_NOFOLLOW)
		}
		acl := []byte("\x02\x00\x00\x00\x01\x00\x06\x00\xff\xff\xff\xff\x02\x00\x04\x00\x01\x00\x00\x00\x04\x00\x04\x00\xff\xff\xff\xff\x10\x00\x04\x00\xff\xff\xff\xff\x20\x00\x04\x00\xff\xff\xff\xff")
		return errors.Join(half("etc/file", stamp.Unix()), half("usr/attr", stamp.Unix()), unix.Setxattr(at("etc/empty"), "system.posix_acl_access", acl, 0),
			keep(at("etc/s"), unix.Mknod(at("etc/s"), unix.S_IFSOCK|0o700, 0)), keep(at("etc/d"), unix.Mknod(at("etc/d"), unix.S_IFBLK|0o600, 5)))
	})
	if r := f.compare(nil); r.Differences != 0 || r.Nanoseconds != 2 || r.ACLs != 1 || r.Sockets != 1 || r.Devices != 1 {
		t.Errorf("%+v", r)
	}
}

func TestOnlyTheFirstDifferencesAreTold(t *testing.T) {
	f := newFixture(t, func(at func(string) string) error {
		for i := range 500 {
			if err := write(at(fmt.Sprintf("d/%03d", i)), "same"); err != nil {
				return err
			}
		}
		return settled(at(""))
	})
	f.change(func(at func(string) string) error {
		for i := range 500 {
			if err := os.WriteFile(at(fmt.Sprintf("d/%03d", i)), []byte("diff"), 0); err != nil {
				return err
			}
		}
		return settled(at(""))
	})
	r := f.compare(nil)
	if r.Differences != 500 || len(r.First) != 100 || r.First[99] != "/d/099: its content differs from byte 0 on" {
		t.Errorf("%d differences, %d told: %q", r.Differences, len(r.First), r.First)
	}
}

func TestCanceled(t *testing.T) {
	f := newFixture(t, plenty)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cfg := f.config()
	cfg.Image = f.image()
	cfg.Progress = func(int64, int64) { cancel(why) }
	for range 2 { // during the walk or before it
		cancel(why)
		if _, err := Trees(ctx, cfg); !errors.Is(err, why) {
			t.Errorf("err = %v", err)
		}
	}
}

// TestLinksThatComeAndGo swaps a directory and a file for links to the host's all the time: nothing of the host is
// read, and what was swapped while it was looked at is a difference.
func TestLinksThatComeAndGo(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	f := newFixture(t, func(at func(string) string) error {
		return errors.Join(write(at("d/x"), "mine!"), write(at("f"), "mine!"), settled(at("")))
	})
	must(t, write(filepath.Join(secret, "x"), "host!"), settled(secret))
	f.change(func(at func(string) string) error { return os.Chmod(at("d/x"), 0o644) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d, hidden := filepath.Join(f.upper, "d"), filepath.Join(f.upper, "hidden")
		for ctx.Err() == nil {
			_ = errors.Join(os.Rename(d, hidden), os.Symlink(secret, d), os.Remove(d), os.Rename(hidden, d))
		}
	}()
	for range 200 {
		cfg := f.config()
		cfg.Image = f.image()
		r, err := Trees(t.Context(), cfg)
		must(t, err)
		if text := strings.Join(r.First, "\n"); strings.Contains(text, "content differs") {
			t.Fatalf("it read what is not the session's: %s", text)
		}
	}
	cancel()
	<-done
}

func TestWhatChangesMeanwhileIsADifference(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), bytes.Repeat([]byte("a"), 1000), 0o644))
	root, err := tree.OpenDir(dir)
	must(t, err)
	defer root.Close()
	d, err := newDirectory(root)
	must(t, err)
	e, err := d.entry("f")
	must(t, err)
	for name, change := range map[string]func(path string) error{
		"shorter": func(p string) error { return os.Truncate(p, 10) },
		"longer":  func(p string) error { return os.Truncate(p, 2000) },
		"a link":  func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/etc/passwd", p)) },
		"a fifo":  func(p string) error { return errors.Join(os.Remove(p), unix.Mkfifo(p, 0o600)) },
		"gone":    os.Remove,
		"replaced": func(p string) error {
			return errors.Join(os.Rename(p, p+"-old"), os.WriteFile(p, bytes.Repeat([]byte("a"), 1000), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "f")
			must(t, os.RemoveAll(path), os.WriteFile(path, bytes.Repeat([]byte("a"), 1000), 0o644))
			e, err = d.entry("f")
			must(t, err)
			c, err := d.open("f", e)
			must(t, err)
			defer c.Close()
			must(t, change(path))
			if name == "shorter" || name == "longer" {
				if err := c.same(); !errors.Is(err, errMoved) {
					t.Errorf("the open file: %v", err)
				}
			}
			if c, err := d.open("f", e); err == nil {
				c.Close()
				t.Error("it was opened again")
			}
		})
	}
}

func BenchmarkTrees(b *testing.B) {
	const files = 100_000
	f := newFixture(b, func(at func(string) string) error {
		for i := range files {
			if err := write(at(fmt.Sprintf("d%03d/f%06d", i%500, i)), fmt.Sprint("content ", i)); err != nil {
				return err
			}
		}
		return settled(at(""))
	})
	image := f.image()
	for b.Loop() {
		cfg := f.config()
		cfg.Image = image
		if r, err := Trees(b.Context(), cfg); err != nil || r.Differences != 0 {
			b.Fatalf("%+v, %v", r, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/files, "µs/file")
}

func TestTimesOfDirectoriesThatAreStrippedEmptyDoNotCount(t *testing.T) {
	f := newFixture(t, func(at func(string) string) error { return errors.Join(os.MkdirAll(at("tmp"), 0o777), settled(at(""))) })
	f.change(func(at func(string) string) error { return write(at("tmp/x"), "x") })
	if r := f.compare(nil); r.Differences != 0 || r.Emptied != 1 || r.Stripped != 1 {
		t.Errorf("%+v", r)
	}
}
