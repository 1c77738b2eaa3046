package graft

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func emptyPass() *pass {
	base := &squashfs.Image{Root: &squashfs.Node{Kind: squashfs.Dir}}
	return &pass{g: &grafter{cfg: Config{Base: base}}, sets: map[string]*squashfs.Xattrs{}}
}

func TestMarksOfOverlayfs(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		refused     bool
		opaque      bool
	}{
		{"opaque", "y", false, true}, {"opaque", "x", true, false}, {"opaque", "", true, false}, {"origin", "\x00\xfb", false, false},
		{"impure", "y", false, false}, {"uuid", "u", false, false}, {"nlink", "U+1", false, false}, {"protattr", "i", false, false},
		{"redirect", "/else", false, false}, {"redirect", "", true, false}, {"metacopy", "", false, false}, {"whiteout", "", true, false}, {"future", "1", true, false},
	} {
		kept, marks, err := emptyPass().attributes("usr/x", []tree.Xattr{{Name: tree.OverlayPrefix + tc.name, Value: []byte(tc.value)}})
		if errors.Is(err, ErrNotSelfContained) != tc.refused || tc.refused && (!errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/usr/x carries trusted.overlay."+tc.name)) {
			t.Errorf("%s=%q: %v", tc.name, tc.value, err)
		}
		if !tc.refused && marks.opaque != tc.opaque || kept != nil {
			t.Errorf("%s=%q: %+v, kept %v", tc.name, tc.value, marks, kept)
		}
	}
}

func TestXattrsAreKeptSharedOrCounted(t *testing.T) {
	p := emptyPass()
	list := []tree.Xattr{
		{Name: "security.capability", Value: []byte{1}}, {Name: "system.posix_acl_access", Value: []byte{2}}, {Name: "trusted.mine", Value: nil},
		{Name: "user.overlay.opaque", Value: []byte("y")}, {Name: "odd.name", Value: nil},
	}
	a, said, err := p.attributes("a", list)
	must(t, err)
	var names []string
	for _, x := range a.List {
		names = append(names, x.Name)
	}
	if want := []string{"security.capability", "trusted.mine", "user.overlay.opaque"}; !slices.Equal(names, want) || said != (marks{}) {
		t.Errorf("kept %q, %+v", names, said)
	}
	if b, _, err := p.attributes("b", list[:]); b != a || err != nil {
		t.Error("equal sets are held twice")
	}
	if c, _, err := p.attributes("c", list[:1]); c == a || err != nil {
		t.Error("different sets are one")
	}
	if l := p.losses; l.ACLs.Count != 3-1 || l.Xattrs.Count != 2 || !slices.Equal(l.ACLs.Paths, []string{"/a", "/b"}) {
		t.Errorf("losses %+v", l)
	}
}

func TestLossesNameTheFirst(t *testing.T) {
	var l Loss
	for range 1000 {
		l.add("x")
	}
	if l.Count != 1000 || len(l.Paths) != maxLossPaths {
		t.Errorf("%d, %d paths", l.Count, len(l.Paths))
	}
}

func TestNodesOfEachKind(t *testing.T) {
	for mode, want := range map[uint32]squashfs.Kind{
		unix.S_IFDIR: squashfs.Dir, unix.S_IFREG: squashfs.File, unix.S_IFLNK: squashfs.Symlink, unix.S_IFIFO: squashfs.Fifo,
	} {
		st := unix.Stat_t{Mode: mode | 0o6751, Uid: 70001, Gid: 5}
		n := emptyPass().node("x", &st, nil)
		if n.Kind != want || n.Mode != 0o6751 || n.UID != 70001 || n.GID != 5 {
			t.Errorf("%o: %+v", mode, n)
		}
	}
}

func TestTimesThatCannotBeHeld(t *testing.T) {
	for _, tc := range []struct {
		at   unix.Timespec
		want uint32
		lost int64
	}{
		{unix.Timespec{Sec: 0}, 0, 0}, {unix.Timespec{Sec: -1}, 0, 1}, {unix.Timespec{Sec: math.MaxUint32}, math.MaxUint32, 0},
		{unix.Timespec{Sec: math.MaxUint32 + 1}, math.MaxUint32, 1}, {unix.Timespec{Sec: 1e9, Nsec: 1}, 1e9, 0},
	} {
		p := emptyPass()
		if got := p.seconds("x", tc.at); got != tc.want || p.losses.Times.Count != tc.lost {
			t.Errorf("%+v: %d, losses %+v", tc.at, got, p.losses)
		}
	}
}

func TestExtentsSkipHoles(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	must(t, err)
	defer file.Close()
	const size = 50 << 30
	must(t, file.Truncate(size))
	f := raw{int(file.Fd()), "f"}
	if list, err := extents(f, size); err != nil || list == nil || len(list) != 0 {
		t.Errorf("one hole: %v, %v", list, err)
	}
	for _, at := range []int64{1 << 20, 30 << 30} {
		_, err := file.WriteAt([]byte{1}, at)
		must(t, err)
	}
	list, err := extents(f, size)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for i, at := range []int64{1 << 20, 30 << 30} {
		if e := list[i]; e.Offset > at || e.Offset+e.Length <= at || e.Length > 1<<20 {
			t.Errorf("extent %+v for a byte at %d", e, at)
		}
	}
	if list, err := extents(f, 2<<20); err != nil || len(list) != 1 || list[0].Offset+list[0].Length > 2<<20 {
		t.Errorf("a file that has grown since: %v, %v", list, err)
	}
}

func TestPatientNeverFails(t *testing.T) {
	bad := errors.New("bad disk")
	for name, tc := range map[string]struct {
		from io.ReaderAt
		want error
	}{
		"whole":  {bytes.NewReader([]byte("abcdef")), nil},
		"shrunk": {bytes.NewReader([]byte("abc")), errMoved},
		"broken": {failing{bad}, bad},
	} {
		t.Run(name, func(t *testing.T) {
			p := &patient{from: tc.from}
			got := bytes.Repeat([]byte{9}, 6)
			for at := int64(0); at < 6; at += 2 {
				if n, err := p.ReadAt(got[at:at+2], at); n != 2 || err != nil {
					t.Errorf("read at %d: %d, %v", at, n, err)
				}
			}
			if !errors.Is(p.err, tc.want) || tc.want == nil && p.err != nil {
				t.Errorf("err = %v", p.err)
			}
			if want := map[string]string{"whole": "abcdef", "shrunk": "abc\x00\x00\x00", "broken": "\x00\x00\x00\x00\x00\x00"}[name]; string(got) != want {
				t.Errorf("read %q", got)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestNotesKnowWhatHasChanged(t *testing.T) {
	n := newNotes()
	st := unix.Stat_t{Ino: 5, Size: 3, Mtim: unix.Timespec{Sec: 7, Nsec: 8}, Ctim: unix.Timespec{Sec: 9, Nsec: 1}}
	known := &note{}
	n.add(&st, known)
	if n.find(&st, "a") != known {
		t.Error("an unchanged file is not known")
	}
	for name, change := range map[string]func(*unix.Stat_t){
		"inode": func(s *unix.Stat_t) { s.Ino++ }, "size": func(s *unix.Stat_t) { s.Size++ }, "mtime": func(s *unix.Stat_t) { s.Mtim.Nsec++ },
		"ctime": func(s *unix.Stat_t) { s.Ctim.Sec++ },
	} {
		other := st
		if change(&other); n.find(&other, "a") != nil {
			t.Errorf("another %s is not seen", name)
		}
	}
	known.earlier = hashOf("a")
	if n.find(&st, "a") != known || n.find(&st, "b") != nil {
		t.Error("what an earlier graft has read counts for its path alone")
	}
}

func TestWorthAnother(t *testing.T) {
	for _, tc := range []struct {
		passes int
		took   time.Duration
		stored int64
		want   bool
	}{
		{1, time.Second, 1 << 30, false}, {1, 3 * time.Second, 1 << 20, false}, {1, 3 * time.Second, 1 << 30, true}, {2, 3 * time.Second, 1 << 30, true},
		{3, time.Hour, 1 << 40, false},
	} {
		if got := worthAnother(tc.passes, tc.took, tc.stored); got != tc.want {
			t.Errorf("after %d passes, %v, %d bytes: %v", tc.passes, tc.took, tc.stored, got)
		}
	}
}

func TestScanSeesEveryChange(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for name, tc := range map[string]struct {
		change func(at func(string) string) error
		same   bool
	}{
		"nothing":        {func(at func(string) string) error { return nil }, true},
		"read":           {func(at func(string) string) error { _, err := os.ReadFile(at("d/f")); return err }, true},
		"stripped":       {func(at func(string) string) error { return os.WriteFile(at("tmp/x"), []byte("2"), 0o600) }, true},
		"runtime":        {func(at func(string) string) error { return os.WriteFile(at(".singularity.d/y"), nil, 0o600) }, true},
		"content":        {func(at func(string) string) error { return os.WriteFile(at("d/f"), []byte("b"), 0o644) }, false},
		"mode":           {func(at func(string) string) error { return os.Chmod(at("d/f"), 0o600) }, false},
		"xattr":          {func(at func(string) string) error { return unix.Setxattr(at("d/f"), "user.x", nil, 0) }, false},
		"new":            {func(at func(string) string) error { return os.WriteFile(at("d/new"), nil, 0o644) }, false},
		"renamed":        {func(at func(string) string) error { return os.Rename(at("d/f"), at("d/g")) }, false},
		"linked":         {func(at func(string) string) error { return os.Link(at("d/f"), at("g")) }, false},
		"deleted":        {func(at func(string) string) error { return os.Remove(at("d/f")) }, false},
		"mode of a root": {func(at func(string) string) error { return os.Chmod(at(""), 0o700) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(p string) string { return filepath.Join(dir, p) }
			must(t, os.MkdirAll(at("d"), 0o755), os.Mkdir(at("tmp"), 0o755), os.Mkdir(at(".singularity.d"), 0o755), os.WriteFile(at("tmp/x"), nil, 0o600), os.WriteFile(at("d/f"), []byte("a"), 0o644))
			before, files, n, err := Scan(t.Context(), dir, noRules(t))
			must(t, err)
			if files != 4 || n != 1 {
				t.Errorf("%d files, %d bytes", files, n)
			}
			clock.Sleep(t.Context(), tick)
			must(t, tc.change(at))
			after, _, _, err := Scan(t.Context(), dir, noRules(t))
			must(t, err)
			if (before == after) != tc.same {
				t.Errorf("states %s, %s", before, after)
			}
		})
	}
}

func TestScanNamesWhatItRefuses(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "mounted"), 0o755), unix.Mount("test", filepath.Join(dir, "mounted"), "tmpfs", 0, ""))
	defer func() { must(t, unix.Unmount(filepath.Join(dir, "mounted"), 0)) }()
	if _, _, _, err := Scan(t.Context(), dir, noRules(t)); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/mounted lies on another file system") {
		t.Errorf("err = %v", err)
	}
}
