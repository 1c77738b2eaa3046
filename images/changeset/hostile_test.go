package changeset

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// TestCut: a stream that ends anywhere, or of which a byte is another, leaves nothing.
func TestCut(t *testing.T) {
	base := baseLayer(t)
	o := newOverlay(t, "", base)
	o.change(func(root string) error {
		return errors.Join(write(filepath.Join(root, "opt/a/b"), "content"), os.Remove(filepath.Join(root, "usr/gone")))
	})
	stream := packed(t, Config{Upper: o.upper, Marks: Trusted})
	dir := t.TempDir()
	refused := func(what string, at int, b []byte) {
		t.Helper()
		if upper, err := Unpack(t.Context(), bytes.NewReader(b), Target{Dir: dir}); err == nil {
			t.Fatalf("%s at %d: %s is made", what, at, upper)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Fatalf("%s at %d: left %v", what, at, left)
		}
	}
	for i := range stream {
		refused("cut", i, stream[:i])
		broken := bytes.Clone(stream)
		broken[i] ^= 4
		refused("broken", i, broken)
	}
	refused("more", len(stream), append(bytes.Clone(stream), 0))
}

// stream makes one by hand.
func stream(frames func(*sender)) io.Reader {
	var b bytes.Buffer
	s := newSender(&b)
	frames(s)
	_ = s.end()
	return &b
}

func (s *sender) entry(e entry) { _ = s.frame(frameEntry, e.append(nil)) }

func TestHostile(t *testing.T) {
	testenv.Need(t, testenv.Root)
	root := entry{mode: unix.S_IFDIR | 0o755}
	file := func(name string) entry { return entry{name: name, mode: unix.S_IFREG | 0o644} }
	in := func(list ...entry) func(*sender) {
		return func(s *sender) {
			s.entry(root)
			for _, e := range list {
				s.entry(e)
			}
			_ = s.frame(frameUp)
		}
	}
	deep := func(s *sender) {
		s.entry(root)
		for range 5000 {
			s.entry(entry{name: "d", mode: unix.S_IFDIR | 0o755})
		}
	}
	content := func(number, size uint64) func(*sender) {
		return func(s *sender) {
			_ = s.numbers(frameContent, number, size)
			_ = s.frame(frameData, []byte{9}, []byte("behind"))
			_ = s.frame(frameKept)
			in()(s)
		}
	}
	for name, frames := range map[string]func(*sender){
		"parent": in(file("..")), "itself": in(file(".")), "path": in(file("a/b")), "no name": in(file("")), "zero": in(file("a\x00b")),
		"absolute": in(file("/etc/passwd")), "twice": in(file("a"), file("a")), "falling": in(file("b"), file("a")), "deep": deep,
		"no root": func(s *sender) { s.entry(file("a")) }, "nothing": func(*sender) {}, "open": func(s *sender) { s.entry(root) },
		"two roots": func(s *sender) { in()(s); in()(s) }, "up": func(s *sender) { _ = s.frame(frameUp) },
		"no kind": in(entry{name: "a"}), "no target": in(entry{name: "a", mode: unix.S_IFLNK}), "no content": in(entry{name: "a", mode: unix.S_IFREG, content: 7}),
		"mark":    in(entry{name: "a", mode: unix.S_IFREG, xattrs: []tree.Xattr{{Name: "trusted.overlay.redirect", Value: []byte("/")}}}),
		"twice c": in(entry{name: "a", mode: unix.S_IFREG, content: 1}, entry{name: "b", mode: unix.S_IFREG, content: 1}),
		"behind":  content(1, 10), "number": content(0, 100), "huge": content(1, 1<<50), "frame": func(s *sender) { _ = s.frame('?') },
		"unended": func(s *sender) { _ = s.numbers(frameContent, 1, 5); in()(s) }, "end of none": func(s *sender) { _ = s.frame(frameKept) },
		"link to a directory": in(entry{name: "a", mode: unix.S_IFDIR | 0o755, link: 3}, entry{name: "b", mode: unix.S_IFREG, link: 3}),
	} {
		dir := t.TempDir()
		upper, err := Unpack(t.Context(), stream(frames), Target{Dir: dir})
		if err == nil {
			t.Errorf("%s: %s is made", name, upper)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// TestLimits: what is too much is said, and where.
func TestLimits(t *testing.T) {
	base := baseLayer(t)
	o := newOverlay(t, "", base)
	o.change(nasty)
	b := packed(t, Config{Upper: o.upper, Marks: Trusted})
	for name, l := range map[string]Limits{"entries": {Entries: 5}, "bytes": {Bytes: 1000}, "sizes": {Sizes: 12 << 20}} {
		_, err := Unpack(t.Context(), bytes.NewReader(b), Target{Dir: t.TempDir(), Limits: l})
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "freeze again") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// endless is a stream that never ends, of frames that bring nothing.
type endless struct {
	head   io.Reader
	frames []byte
	given  int64
}

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.head.Read(p); n > 0 || err == nil {
		return n, nil
	}
	n := 0
	for n+len(e.frames) <= len(p) {
		n += copy(p[n:], e.frames)
	}
	e.given += int64(n)
	return n, nil
}

// TestEndless: whatever a stream repeats, it is given up when it has brought what it may.
func TestEndless(t *testing.T) {
	testenv.Need(t, testenv.Root)
	frame := func(kind byte, parts ...byte) []byte { return append([]byte{kind, byte(len(parts))}, parts...) }
	for name, tc := range map[string]struct {
		before func(*sender)
		frames []byte
	}{
		"totals":     {func(*sender) {}, frame(frameTotals, 0, 0)},
		"empty data": {func(s *sender) { _ = s.numbers(frameContent, 1, 5) }, frame(frameData, 0)},
	} {
		var b bytes.Buffer
		s := newSender(&b)
		tc.before(s)
		must(t, s.w.Flush())
		e := &endless{head: &b, frames: tc.frames}
		_, err := Unpack(t.Context(), e, Target{Dir: t.TempDir(), Limits: Limits{Bytes: 1 << 20}})
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "more than 1 MB") || e.given > 2<<20 {
			t.Errorf("%s: after %d bytes: %v", name, e.given, err)
		}
	}
}

// TestContentsForNobody: contents that no entry names take room, so there are as many as entries at most.
func TestContentsForNobody(t *testing.T) {
	testenv.Need(t, testenv.Root)
	contents := func(end byte) io.Reader {
		return stream(func(s *sender) {
			for i := range uint64(10) {
				_ = s.numbers(frameContent, i+1, 0)
				_ = s.frame(end)
			}
			s.entry(entry{mode: unix.S_IFDIR | 0o755})
			_ = s.frame(frameUp)
		})
	}
	for end, refused := range map[byte]bool{frameKept: true, frameDropped: false} {
		_, err := Unpack(t.Context(), contents(end), Target{Dir: t.TempDir(), Limits: Limits{Entries: 5}})
		if refused != (err != nil && strings.Contains(err.Error(), "more than 5 entries")) {
			t.Errorf("%q: %v", end, err)
		}
	}
}

// TestManyHoles: a file that is one large hole costs nothing on its way, and many of them are as large as one.
func TestManyHoles(t *testing.T) {
	testenv.Need(t, testenv.Root)
	contents := func(end byte) io.Reader {
		return stream(func(s *sender) {
			for i := range uint64(5) {
				_ = s.numbers(frameContent, i+1, 1<<40)
				_ = s.frame(end)
			}
			s.entry(entry{mode: unix.S_IFDIR | 0o755})
			_ = s.frame(frameUp)
		})
	}
	for end, refused := range map[byte]bool{frameKept: true, frameDropped: false} {
		_, err := Unpack(t.Context(), contents(end), Target{Dir: t.TempDir()})
		if refused != (errs.Is(err, errs.Invalid) && strings.Contains(err.Error(), "more than 4398 GB")) {
			t.Errorf("%q: %v", end, err)
		}
	}
}

// TestManyLinks: names of files that have several are no way to fill the service's memory.
func TestManyLinks(t *testing.T) {
	testenv.Need(t, testenv.Root)
	root, err := tree.OpenDir(t.TempDir())
	must(t, err)
	p := planter{root: root, links: map[uint64]string{}, linked: mostLinks - 200}
	defer p.close()
	must(t, p.plant(entry{mode: unix.S_IFDIR | 0o755}), p.plant(entry{name: "a", mode: unix.S_IFREG | 0o644, link: 1}))
	if err := p.plant(entry{name: strings.Repeat("b", 150), mode: unix.S_IFREG | 0o644, link: 2}); !errs.Is(err, errs.Invalid) {
		t.Errorf("one more: %v", err)
	}
	must(t, p.plant(entry{name: "c", mode: unix.S_IFREG | 0o644, link: 1}))
}

func TestEntryIsReadAsWritten(t *testing.T) {
	for _, e := range []entry{
		{}, {name: "\xff\n", mode: 0o104755, uid: 1<<32 - 1, gid: 7, sec: -1 << 62, nsec: 999_999_999, rdev: 1<<32 - 1, content: 1 << 63, link: 1<<64 - 1, opaque: true},
		{name: "l", target: "/x", sec: 1 << 40, xattrs: []tree.Xattr{{Name: "user.a=b", Value: []byte{0}}, {Name: "user.c", Value: []byte{}}}},
	} {
		got, err := parseEntry(&fields{b: e.append(nil)})
		if diff := cmp.Diff(e, got, cmp.AllowUnexported(entry{})); err != nil || diff != "" {
			t.Errorf("%v: %s", err, diff)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	testenv.Need(f, testenv.Root)
	base := baseLayer(f)
	o := newOverlay(f, "", base)
	o.change(func(root string) error {
		at := func(p string) string { return filepath.Join(root, p) }
		return errors.Join(write(at("opt/a/b"), "content"), os.Link(at("opt/a/b"), at("opt/c")), os.Remove(at("usr/gone")), os.Symlink("x", at("opt/l")))
	})
	var b bytes.Buffer
	must(f, Pack(f.Context(), Config{Upper: o.upper, Marks: Trusted}, &b))
	f.Add(b.Bytes()[len(magic):])
	f.Fuzz(func(t *testing.T, data []byte) {
		outside := t.TempDir()
		dir := filepath.Join(outside, "dir")
		must(t, os.Mkdir(dir, 0o700))
		// Sums are right, or nothing behind them would be seen.
		r := stream(func(s *sender) { s.write(data) })
		_, err := Unpack(t.Context(), r, Target{Dir: dir, Limits: Limits{Entries: 100, Bytes: 1 << 20, Sizes: 1 << 20}})
		left, _ := os.ReadDir(dir)
		if err != nil && len(left) > 0 || err == nil && len(left) != 1 {
			t.Errorf("%v, and left is %v", err, left)
		}
		if beside, _ := os.ReadDir(outside); len(beside) != 1 {
			t.Errorf("it wrote elsewhere: %v", beside)
		}
	})
}
