package graft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/images/tree/treetest"
)

func nastyBase(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	return errors.Join(
		write(at("etc/passwd"), "root:x:0:0::/root:/bin/sh\n"),
		write(at("usr/gone"), "deleted"), write(at("usr/tree/a/b"), "deleted tree"),
		write(at("usr/opaque/old"), "must not come back"), write(at("usr/opaque/sub/old"), "nor this"),
		write(at("usr/file-to-dir"), "file"), write(at("usr/dir-to-file/x"), "x"),
		write(at("usr/edited"), "before"), write(at("usr/touched"), "same"), write(at("usr/chowned"), "same"),
		write(at("usr/linked"), "one of three"), os.Link(at("usr/linked"), at("usr/linked-too")), os.Link(at("usr/linked"), at("usr/lib-linked")),
		write(at("usr/to-socket"), "a file in the base"), os.Symlink("edited", at("usr/link")),
		write(at("usr/kept/deep/er/still/here"), "kept"), write(at("usr/kept/edited"), "1"),
		write(at("usr/a/stripped/base"), "stripped of the base"), write(at("usr/b/keep"), "k"),
		write(at("var/lib/x"), "list"), os.Chmod(at("var/lib"), 0o2751), os.Chown(at("var/lib"), 7, 8),
		unix.Setxattr(at("var/lib"), "user.of", []byte("a parent"), 0), os.Chtimes(at("var/lib"), time.Unix(2e9, 0), time.Unix(2e9, 0)),
		unix.Mknod(at("usr/chr"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 300))), unix.Mknod(at("usr/blk"), unix.S_IFBLK|0o640, int(unix.Mkdev(259, 70000))),
		write(at("usr/to-device"), "a file in the base"),
	)
}

func nastyChanges(root string) error {
	at := func(p string) string { return filepath.Join(root, p) }
	mk := func(p string, mode uint32, dev int) error { return unix.Mknod(at(p), mode, dev) }
	capability := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	capability = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(capability, 0x2000), 0)
	return errors.Join(
		os.Remove(at("usr/gone")), os.RemoveAll(at("usr/tree")),
		os.RemoveAll(at("usr/opaque")), write(at("usr/opaque/new"), "new"),
		os.Remove(at("usr/file-to-dir")), write(at("usr/file-to-dir/inside"), "in"),
		os.RemoveAll(at("usr/dir-to-file")), write(at("usr/dir-to-file"), "file"),
		write(at("usr/edited"), "after"), os.Chmod(at("usr/edited"), 0o640), os.Chown(at("usr/chowned"), 1234, 70001),
		os.Chtimes(at("usr/touched"), time.Unix(1234567890, 5e8), time.Unix(1234567890, 5e8)),
		os.Chmod(at("usr/linked-too"), 0o600), os.Remove(at("usr/to-socket")), mk("usr/to-socket", unix.S_IFSOCK|0o600, 0),
		os.Remove(at("usr/link")), os.Symlink("/nowhere/at all", at("usr/link")), write(at("usr/kept/edited"), "2"),
		write(at("usr/a/stripped/mine"), "stripped of mine"), write(at("usr/c/stripped"), "s"), os.Chmod(at("usr/chr"), 0o640),
		write(at("opt/x/hard1"), "hard"), os.MkdirAll(at("opt/y"), 0o755), os.Link(at("opt/x/hard1"), at("opt/y/hard2")),
		mk("opt/fifo", unix.S_IFIFO|0o640, 0), mk("opt/chr", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 300))), mk("opt/blk", unix.S_IFBLK|0o660, int(unix.Mkdev(259, 7))),
		os.Link(at("opt/chr"), at("opt/chr-too")), os.Remove(at("usr/to-device")), mk("usr/to-device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		write(at("opt/suid"), "s"), os.Chmod(at("opt/suid"), os.ModeSetuid|os.ModeSetgid|0o755),
		write(at("opt/xattr"), "x"), unix.Setxattr(at("opt/xattr"), "user.note", bytes.Repeat([]byte("v"), 600), 0),
		unix.Lsetxattr(at("usr/link"), "trusted.link", []byte("on a link"), 0), unix.Setxattr(at("opt/y"), "trusted.dir", []byte{0, 1}, 0),
		write(at("opt/cap"), "c"), unix.Setxattr(at("opt/cap"), "security.capability", capability, 0),
		write(at("opt/acl"), "a"), unix.Setxattr(at("opt/acl"), "system.posix_acl_access", accessACL(), 0),
		sparseFile(at("opt/sparse")), write(at("opt/empty"), ""), write(at("opt/large"), strings.Repeat("large ", 1<<19)),
		write(at("opt/new\nline"), "1"), write(at("opt/Grüße ☃"), "2"), write(at("opt/.wh.name"), "3"), write(at("opt/\xff\xfe"), "4"), write(at("opt/ -rf *"), "5"),
		write(at("opt/locked"), "secret"), os.Chmod(at("opt/locked"), 0), os.Symlink("gone", at("opt/dangling")),
		mk("opt/socket", unix.S_IFSOCK|0o600, 0), write(at("opt/future"), "f"), os.Chtimes(at("opt/future"), time.Unix(4e9, 0), time.Unix(4e9, 0)),
		write(at("root/.netrc"), "password"), write(at("root/.ssh/id"), "key"), write(at("tmp/x509up_u1"), "proxy"), write(at("home/alice/.cache/x"), "y"),
		os.Chown(root, 3, 4), os.Chmod(root, 0o751), os.Chtimes(root, time.Unix(1500000000, 0), time.Unix(1500000000, 0)),
	)
}

func accessACL() []byte {
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 6, ^uint32(0)}, {2, 4, 1}, {4, 4, ^uint32(0)}, {16, 6, ^uint32(0)}, {32, 4, ^uint32(0)}} {
		acl = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(acl, uint16(e[0])), uint16(e[1]))
		acl = binary.LittleEndian.AppendUint32(acl, e[2])
	}
	return acl
}

func sparseFile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{1}, 32<<20)
	return errors.Join(err, f.Truncate(64<<20), f.Close())
}

func TestGraftedTreeIsTheSessionsTree(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	r, tail := f.graft(nil)
	want := f.list()
	if len(want) < 60 {
		t.Fatalf("the fixture has only %d entries", len(want))
	}
	f.equal(want, r, tail)
	for _, secret := range []string{"/root/.netrc", "/root/.ssh", "/tmp/x509up_u1", "/home/alice", "/usr/a/stripped", "/usr/c/stripped"} {
		if lookup(r.Root, secret[1:]) != nil || slices.Contains(r.Changed, secret) {
			t.Errorf("%s is in the tree", secret)
		}
	}
	checkResult(t, f, r)
}

func checkResult(t *testing.T, f *fixture, r Result) {
	t.Helper()
	if d := cmp.Diff([]string{"/opt/socket", "/usr/to-socket"}, r.Sockets); d != "" {
		t.Errorf("sockets (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"/opt/blk", "/opt/chr", "/opt/chr-too", "/usr/chr", "/usr/to-device"}, r.Devices); d != "" {
		t.Errorf("devices (-want +got):\n%s", d)
	}
	if n := lookup(r.Root, "usr/blk"); n == nil || n.Kind != squashfs.BlockDevice || n != f.base.Lookup("/usr/blk") {
		t.Errorf("the device that the base has of its image: %+v", n)
	}
	if d := cmp.Diff([]string{"/usr/chr", "/usr/gone", "/usr/to-device", "/usr/to-socket", "/usr/tree"}, r.Deleted); d != "" {
		t.Errorf("deleted (-want +got):\n%s", d)
	}
	if !slices.Contains(r.Changed, "/opt/y/hard2") || !slices.Contains(r.Changed, "/usr/kept") || slices.Contains(r.Changed, "/usr/kept/deep") {
		t.Errorf("changed %q", r.Changed)
	}
	if l := r.Losses; l.ACLs.Count != 1 || l.ACLs.Paths[0] != "/opt/acl" || l.Times.Count != 0 {
		t.Errorf("losses %+v", l)
	}
	state, files, n, err := Scan(t.Context(), f.upper, f.strip)
	if err != nil || state != r.State || files != r.Files || n != r.Bytes {
		t.Errorf("a scan gives %s, %d files, %d bytes, %v; the graft %s, %d, %d", state, files, n, err, r.State, r.Files, r.Bytes)
	}
	if len(r.Added) != 0 || r.Redone != 0 || r.Passes != 1 {
		t.Errorf("added %q, redone %d, passes %d", r.Added, r.Redone, r.Passes)
	}
	if lookup(r.Root, "usr/kept/deep") != f.base.Lookup("/usr/kept/deep") || lookup(r.Root, "usr/kept") == f.base.Lookup("/usr/kept") {
		t.Error("exactly the directories on the way to a change must be copies")
	}
}

// TestBaseIsNeverChanged grafts twice at once onto one parsed base.
func TestBaseIsNeverChanged(t *testing.T) {
	f := newFixture(t, nastyBase)
	before := paths(f.base.Root)
	f.change(nastyChanges)
	done := make(chan []byte)
	for range 2 {
		go func() {
			var tail bytes.Buffer
			if _, err := Graft(t.Context(), f.config(&tail)); err != nil {
				t.Error(err)
			}
			done <- tail.Bytes()
		}()
	}
	if a, b := <-done, <-done; !bytes.Equal(a, b) {
		t.Error("two grafts at once differ")
	}
	if d := cmp.Diff(before, paths(f.base.Root)); d != "" {
		t.Errorf("the base's tree has changed:\n%s", d)
	}
}

// TestEqualTreesGiveEqualTails grafts the same change from another directory, with other inode numbers and another
// order of entries, with one worker and with many, paused and not.
func TestEqualTreesGiveEqualTails(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	r, want := f.graft(nil)
	copied := f.at("copied")
	must(t, run("cp", "-a", f.upper, copied))
	for name, change := range map[string]func(*Config){
		"again":       func(*Config) {},
		"one worker":  func(c *Config) { c.Workers = 1 },
		"many":        func(c *Config) { c.Workers = 7 },
		"no pause":    func(c *Config) { c.Pause = nil },
		"another dir": func(c *Config) { c.Upper = copied },
	} {
		t.Run(name, func(t *testing.T) {
			got, tail := f.graft(change)
			if !bytes.Equal(tail, want) || got.Super != r.Super {
				t.Errorf("%d bytes, not %d, or not the same", len(tail), len(want))
			}
			if (got.State == r.State) != (name != "another dir") {
				t.Errorf("state %s, was %s", got.State, r.State)
			}
		})
	}
	f.change(func(root string) error { return os.WriteFile(filepath.Join(root, "opt/empty"), []byte("x"), 0o644) })
	if got, tail := f.graft(nil); bytes.Equal(tail, want) || got.State == r.State {
		t.Error("a change made no difference")
	}
}

// TestTimesOfStrippedEntriesTellNothing: what comes and goes in a directory that travels empty makes no other
// environment; what comes and goes elsewhere does, for its directory's time is the session's.
func TestTimesOfStrippedEntriesTellNothing(t *testing.T) {
	f := newFixture(t, func(root string) error {
		return os.Chtimes(filepath.Join(root, "tmp"), time.Time{}, time.Unix(1_600_000_000, 0))
	})
	at := func(path string, seconds int64) {
		f.change(func(root string) error {
			return os.Chtimes(filepath.Join(root, path), time.Time{}, time.Unix(seconds, 0))
		})
	}
	at("tmp", 1_700_000_000)
	at("etc", 1_700_000_000)
	r, want := f.graft(nil)
	if got := lookup(r.Root, "tmp").MTime; got != lookup(f.base.Root, "tmp").MTime {
		t.Errorf("the time of /tmp is %d, not the base's", got)
	}
	at("tmp", 1_700_000_100)
	if _, tail := f.graft(nil); !bytes.Equal(tail, want) {
		t.Error("another time of /tmp gives another image")
	}
	at("etc", 1_700_000_100)
	if _, tail := f.graft(nil); bytes.Equal(tail, want) {
		t.Error("another time of /etc gives the same image")
	}
}

// TestYoungFilesAreReadOnce grafts what was written this very moment: nothing is left for the pause, and so no order of
// contents depends on when the graft began.
func TestYoungFilesAreReadOnce(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error {
		return errors.Join(write(filepath.Join(root, "opt/a"), "a"), write(filepath.Join(root, "opt/b"), strings.Repeat("b", 2<<20)))
	})
	r, tail := f.graft(nil)
	again, same := f.graft(nil)
	if r.Redone != 0 || again.Redone != 0 || !bytes.Equal(tail, same) {
		t.Errorf("redone %d, then %d; equal %v", r.Redone, again.Redone, bytes.Equal(tail, same))
	}
}

func TestUpperDirectoryThatTellsNotAllIsRefused(t *testing.T) {
	for _, tc := range []struct{ path, name, value string }{
		{"usr", "redirect", "/elsewhere"}, {"usr/x", "metacopy", ""}, {"usr", "opaque", "x"}, {"usr/x", "whiteout", "y"}, {"usr", "future", "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, nastyBase)
			must(t, write(filepath.Join(f.upper, "usr/x"), "x"), unix.Setxattr(filepath.Join(f.upper, tc.path), tree.OverlayPrefix+tc.name, []byte(tc.value), 0))
			var tail bytes.Buffer
			cfg := f.config(&tail)
			calls := count(&cfg)
			_, err := Graft(t.Context(), cfg)
			if !errors.Is(err, ErrNotSelfContained) || !strings.Contains(err.Error(), "/"+tc.path+" carries trusted.overlay."+tc.name) || tail.Len() > 0 {
				t.Errorf("%d bytes, err = %v", tail.Len(), err)
			}
			if *calls != (pauses{}) {
				t.Errorf("the source was paused: %+v", *calls)
			}
		})
	}
}

func TestLinksLeadNowhere(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error {
		at := func(p string) string { return filepath.Join(root, p) }
		return errors.Join(os.Symlink("/etc", at("opt")), os.Mkdir(at("srv"), 0o755), os.Symlink("/etc/shadow", at("srv/x")), os.Remove(at("tmp")), os.Symlink("/", at("tmp")))
	})
	r, tail := f.graft(nil)
	f.equal(f.list(), r, tail)
	for path, want := range map[string]string{"opt": "/etc", "srv/x": "/etc/shadow", "tmp": "/"} {
		if n := lookup(r.Root, path); n == nil || n.Kind != squashfs.Symlink || n.Target != want {
			t.Errorf("/%s is %+v", path, n)
		}
	}
}

func TestDeletedSkeletonComesBackAndIsTold(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error {
		return errors.Join(os.RemoveAll(filepath.Join(root, "etc")), os.RemoveAll(filepath.Join(root, "var/tmp")), os.RemoveAll(filepath.Join(root, runtimeDir)), os.Remove(filepath.Join(root, "environment")))
	})
	r, tail := f.graft(nil)
	if d := cmp.Diff([]string{"/etc", "/var/tmp", "/etc/hosts", "/etc/resolv.conf", "/environment"}, r.Added); d != "" {
		t.Errorf("added (-want +got):\n%s", d)
	}
	root := f.mount(r, tail)
	if data, err := os.ReadFile(filepath.Join(root, runtimeDir, "runscript")); err != nil || string(data) != "#!/bin/sh\n" {
		t.Errorf("the runtime directory's runscript is %q, %v", data, err)
	}
	if list := treetest.List(t, filepath.Join(root, "etc")); len(list) != 3 {
		t.Errorf("/etc holds %q", list)
	}
}

// TestHolesCostNothing grafts a file of 50 GB with one byte in it.
func TestHolesCostNothing(t *testing.T) {
	f := newFixture(t, nastyBase)
	const size, at = 50e9, 49e9
	f.change(func(root string) error {
		file, err := os.Create(filepath.Join(root, "usr/huge"))
		if err != nil {
			return err
		}
		_, err = file.WriteAt([]byte("x"), at)
		return errors.Join(err, file.Truncate(size), file.Close())
	})
	start := time.Now()
	r, tail := f.graft(nil)
	if took := time.Since(start); took > time.Minute || len(tail) > 1<<20 {
		t.Errorf("%d bytes in %v", len(tail), took)
	}
	file, err := os.Open(filepath.Join(f.mount(r, tail), "usr/huge"))
	must(t, err)
	defer file.Close()
	st, err := file.Stat()
	got := make([]byte, 3)
	_, readErr := file.ReadAt(got, at-1)
	if err != nil || readErr != nil || st.Size() != size || string(got) != "\x00x\x00" {
		t.Errorf("size %d, bytes %q, %v, %v", st.Size(), got, err, readErr)
	}
}

func TestSocketOfALiveProcessIsSkipped(t *testing.T) {
	f := newFixture(t, nastyBase)
	s, err := net.Listen("unix", filepath.Join(f.merged, "sock"))
	must(t, err)
	defer s.Close()
	if r, _ := f.graft(nil); !slices.Equal(r.Sockets, []string{"/sock"}) {
		t.Errorf("sockets = %q", r.Sockets)
	}
}

func TestNothingChangedIsTheBaseAgain(t *testing.T) {
	f := newFixture(t, nastyBase)
	r, tail := f.graft(nil)
	f.equal(f.list(), r, tail)
	if len(r.Changed)+len(r.Deleted) != 0 || r.Bytes != 0 || r.Files != 1 {
		t.Errorf("%+v", r)
	}
}

func TestDeepTrees(t *testing.T) {
	for name, tc := range map[string]struct {
		depth int
		want  string
	}{"deep": {1500, ""}, "too deep": {2500, "can be packed"}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nastyBase)
			must(t, nest(f.upper, tc.depth))
			_, err := Graft(t.Context(), f.config(&bytes.Buffer{}))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// nest makes directories below one another, deeper than any path can name.
func nest(root string, depth int) error {
	fd, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range depth {
		if err != nil {
			return err
		}
		err = unix.Mkdirat(fd, "d", 0o755)
		next, openErr := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		err = errors.Join(err, openErr, unix.Close(fd))
		fd = next
	}
	return errors.Join(err, unix.Close(fd))
}
