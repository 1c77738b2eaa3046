package layer

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// item is one entry of an archive. Its time is one second after 1970, as is that of the directories that engines
// change.
type item struct {
	kind byte
	name string
	data string // what it holds, or leads to
	mode int64
}

func dir(name string) item          { return item{tar.TypeDir, name, "", 0o755} }
func file(name, data string) item   { return item{tar.TypeReg, name, data, 0o644} }
func symlink(name, to string) item  { return item{tar.TypeSymlink, name, to, 0o777} }
func hardlink(name, to string) item { return item{tar.TypeLink, name, to, 0o644} }
func archive(items ...item) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{Typeflag: i.kind, Name: i.name, Mode: i.mode, ModTime: time.Unix(1, 0)}
		if i.kind == tar.TypeReg {
			h.Size = int64(len(i.data))
		} else {
			h.Linkname = i.data
		}
		if w.WriteHeader(h) == nil && i.kind == tar.TypeReg {
			_, _ = w.Write([]byte(i.data))
		}
	}
	_ = w.Close()
	return b.Bytes()
}

// unpackInto writes an archive below a new directory beside a canary, over base.
func unpackInto(t testing.TB, base string, text []byte) (string, error) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "in")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	u := &Unpacking{Dir: at, Base: base, Time: time.Unix(1, 0)}
	return at, u.Unpack(bytes.NewReader(text))
}

// TestUnpackOver: only what differs from the base is written, and what is missing is deleted.
func TestUnpackOver(t *testing.T) {
	testenv.Need(t, testenv.Root)
	long := strings.Repeat("x", compareSize) + "the end"
	before := []item{
		dir("a/"), file("a/same", "1"), file("a/edit", long), file("a/gone", "3"), dir("a/sub/"), file("a/sub/gone", "4"),
		file("twin1", "t"), hardlink("twin2", "twin1"), symlink("link", "a"), dir("turns"), file("turns/inner", "5"), file("grows", "6"),
	}
	base, err := unpackInto(t, "", archive(before...))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		now  []item
		want []string
	}{
		"nothing": {before, nil},
		"many things": {
			[]item{
				dir("a/"), file("a/same", "1"), file("a/edit", long[:compareSize]+"the END"), file("twin1", "t"), hardlink("twin2", "twin1"),
				hardlink("a/third", "twin1"), symlink("link", "b"), file("turns", "now a file"), dir("grows"), file("grows/in", "7"),
			},
			[]string{"a dir", "a/edit 65543", "a/gone deleted", "a/sub deleted", "a/third 1", "grows dir", "grows/in 1", "link -> b", "turns 10", "twin1 1"},
		},
		"engine's own": {append([]item{dir("etc"), file("etc/hosts", "x"), file(".dockerenv", ""), file("dev/shm/x", "")}, before...), []string{"etc dir"}},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := unpackInto(t, base, archive(test.now...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, entries(t, at)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// entries lists a directory.
func entries(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		h, err := HeaderOf(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir():
			name += " dir"
		case h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0:
			name += " deleted"
		case h.Typeflag == tar.TypeSymlink:
			name += " -> " + h.Linkname
		default:
			name += fmt.Sprintf(" %d", h.Size)
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// hostiles are archives that no tree gives.
func hostiles() map[string][]byte {
	return map[string][]byte{
		"absolute":         archive(file("/canary", "x")),
		"above":            archive(file("../canary", "x")),
		"above in between": archive(dir("a"), file("a/../../canary", "x")),
		"no directory":     archive(file("a/b", "x")),
		"through a link":   archive(symlink("a", ".."), file("a/canary", "x")),
		"below a file":     archive(file("a", ""), file("a/b", "")),
		"twice":            archive(file("a", "1"), file("a", "2")),
		"a link's place":   archive(symlink("a", "../canary"), file("a", "2")),
		"link out":         archive(hardlink("a", "../canary")),
		"link to nothing":  archive(hardlink("a", "b")),
		"link to itself":   archive(hardlink("a", "a")),
		"link to a dir":    archive(dir("d"), hardlink("a", "d")),
		"a whiteout":       archive(item{tar.TypeChar, "a", "", 0o600}),
		"cut short":        archive(file("a", strings.Repeat("x", 5000)))[:2000],
		"odd type":         archive(item{tar.TypeCont, "a", "", 0o600}),
	}
}

func TestUnpackRefuses(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for name, text := range hostiles() {
		t.Run(name, func(t *testing.T) {
			at, err := unpackInto(t, "", text)
			if err == nil {
				t.Errorf("unpacked: %q", entries(t, at))
			}
			if name != "cut short" && !errs.Is(err, errs.Unavailable) {
				t.Errorf("unpack = %v, want it to be the engine's fault", err)
			}
			if left, err := os.ReadDir(filepath.Dir(at)); err != nil || len(left) != 1 {
				t.Errorf("something lies beside it: %v, %v", left, err)
			}
		})
	}
}

// FuzzUnpack: whatever an archive says, nothing outside the directory is made or changed, with or without a base.
func FuzzUnpack(f *testing.F) {
	testenv.Need(f, testenv.Root)
	for _, text := range hostiles() {
		f.Add(text)
	}
	f.Add(archive(dir("a/"), file("a/b", strings.Repeat("1", 5000)))[:1800])
	f.Add(archive(dir("a/"), file("a/b", "1"), hardlink("c", "a/b"), symlink("d", "/etc")))
	base, err := unpackInto(f, "", archive(dir("a/"), file("a/b", strings.Repeat("1", 5000)), symlink("out", "..")))
	if err != nil {
		f.Fatal(err)
	}
	room := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, over := range []string{"", base} {
			at := filepath.Join(room, "in")
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
			u := &Unpacking{Dir: at, Base: over, Time: time.Unix(1, 0)}
			err := u.Unpack(bytes.NewReader(text))
			if left, listing := os.ReadDir(room); listing != nil || len(left) != 1 {
				t.Errorf("something lies beside it: %v, %v (%v)", left, listing, err)
			}
			if err := os.RemoveAll(at); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(entriesOf(base), " "); got != "a a/b out" {
			t.Errorf("the base has become %s", got)
		}
	})
}

func entriesOf(root string) (all []string) {
	_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(root, path); name != "." {
			all = append(all, name)
		}
		return err
	})
	return all
}
