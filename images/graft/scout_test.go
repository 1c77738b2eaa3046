package graft

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
)

// scoutedTree has a directory of more names than are looked at together, one below many others, empty ones, and links.
func scoutedTree(t *testing.T) *os.File {
	t.Helper()
	dir := t.TempDir()
	for i := range 3*partLength + 5 {
		must(t, write(filepath.Join(dir, "flat", fmt.Sprint(i)), strings.Repeat("x", i%7)))
		must(t, os.MkdirAll(filepath.Join(dir, "wide", fmt.Sprint(i)), 0o755))
	}
	must(t, write(filepath.Join(dir, strings.Repeat("deep/", 300), "file"), "x"))
	must(t, os.Symlink("deep", filepath.Join(dir, "link")))
	root, err := tree.OpenDir(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

// told lists what a scout tells, and gives the fingerprint.
func told(t *testing.T, root *os.File, workers int) (list []string, state string) {
	t.Helper()
	st, err := tree.StatFile(root)
	must(t, err)
	s, top := newScout(t.Context(), workers, root, st.Dev, nil, newNotes(), false)
	defer s.end()
	all := newPrint()
	var walk func(f *folder)
	walk = func(f *folder) {
		must(t, s.visit(f))
		defer s.leave(f)
		for _, p := range f.parts {
			entries := s.look(p)
			all.add(p.print)
			for i := range entries {
				e := &entries[i]
				must(t, e.err)
				if list = append(list, e.path+">"+e.target); e.folder != nil {
					walk(e.folder)
				}
			}
		}
	}
	walk(top)
	_, _, state = all.sums()
	return list, state
}

func TestScoutsTellTheSameHoweverMany(t *testing.T) {
	root := scoutedTree(t)
	want, state := told(t, root, 0)
	if n := 2*(3*partLength+5) + 300 + 4; len(want) != n {
		t.Fatalf("%d entries, want %d", len(want), n)
	}
	for _, workers := range []int{1, 2, 7, 16} {
		if got, other := told(t, root, workers); strings.Join(got, "\n") != strings.Join(want, "\n") || other != state {
			t.Errorf("%d scouts tell another tree", workers)
		}
	}
}

// TestScoutsCloseWhatTheyOpen ends one in the middle, and one that is canceled.
func TestScoutsCloseWhatTheyOpen(t *testing.T) {
	root := scoutedTree(t)
	st, err := tree.StatFile(root)
	must(t, err)
	before := descriptors(t)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		s, top := newScout(ctx, 4, root, st.Dev, nil, nil, false)
		must(t, s.visit(top))
		s.look(top.parts[0])
		cancel()
		for _, e := range top.parts[0].entries {
			if e.folder == nil {
				continue
			}
			if err := s.visit(e.folder); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		s.end()
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d files are open, %d were", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// TestWhatIsKnownIsNotReadAgain finds a file's xattrs in the notes for as long as its times stay.
func TestWhatIsKnownIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	must(t, write(filepath.Join(dir, "file"), "x"))
	must(t, unix.Setxattr(filepath.Join(dir, "file"), "user.a", []byte("b"), 0))
	root, err := tree.OpenDir(dir)
	must(t, err)
	defer root.Close()
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(dir, "file"), &st))
	for name, tc := range map[string]struct {
		known *note
		read  int
	}{
		"nothing":         {nil, 1},
		"the content":     {&note{}, 1},
		"and the xattrs":  {&note{plain: true}, 0},
		"of another path": {&note{plain: true, earlier: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNotes()
			if tc.known != nil {
				n.add(&st, tc.known)
			}
			s, top := newScout(t.Context(), 1, root, st.Dev, nil, n, false)
			defer s.end()
			must(t, s.visit(top))
			if e := s.look(top.parts[0])[0]; e.err != nil || len(e.xattrs) != tc.read {
				t.Errorf("%d xattrs were read, want %d; %v", len(e.xattrs), tc.read, e.err)
			}
		})
	}
}
