package inventory

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/images/squashfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

// store holds contents as one base's bytes do: equal contents of trees that share a store lie at one place.
type store struct {
	at    map[string]*squashfs.Data
	bytes map[uint64]string
	next  uint64
}

func newStore() *store {
	return &store{at: map[string]*squashfs.Data{}, bytes: map[uint64]string{}, next: squashfs.SuperblockSize}
}

func (s *store) put(content string) *squashfs.Data {
	if content == "" {
		return nil
	}
	d, ok := s.at[content]
	if !ok {
		d = &squashfs.Data{Start: s.next, Size: uint64(len(content)), Fragment: squashfs.NoFragment, Blocks: []uint32{uint32(len(content)) | 1<<24}}
		s.at[content], s.bytes[s.next] = d, content
		s.next += uint64(len(content))
	}
	c := *d
	return &c
}

func (s *store) open(n *squashfs.Node) (io.ReaderAt, error) {
	content, ok := s.bytes[n.Data.Start]
	if !ok {
		return nil, fs.ErrInvalid
	}
	return strings.NewReader(content), nil
}

// tree makes a tree of a file system with no directory of a host behind it.
func (s *store) tree(files fstest.MapFS) Tree {
	root := &squashfs.Node{Kind: squashfs.Dir, Mode: 0o755}
	dirs := map[string]*squashfs.Node{".": root}
	var dir func(name string) *squashfs.Node
	put := func(name string, n *squashfs.Node) {
		parent := dir(path.Dir(name))
		parent.Children = append(parent.Children, squashfs.Entry{Name: path.Base(name), Node: n})
	}
	dir = func(name string) *squashfs.Node {
		if dirs[name] == nil {
			dirs[name] = &squashfs.Node{Kind: squashfs.Dir, Mode: 0o755}
			put(name, dirs[name])
		}
		return dirs[name]
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		n := &squashfs.Node{Kind: squashfs.File, Mode: uint16(f.Mode.Perm()), MTime: uint32(f.ModTime.Unix())}
		if f.ModTime.IsZero() {
			n.MTime = 0
		}
		switch {
		case f.Mode.IsDir():
			dir(name)
			continue
		case f.Mode&fs.ModeSymlink != 0:
			n.Kind, n.Target = squashfs.Symlink, string(f.Data)
		default:
			n.Data = s.put(string(f.Data))
		}
		put(name, n)
	}
	for _, d := range dirs {
		slices.SortFunc(d.Children, func(a, b squashfs.Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	return Tree{Root: root, Open: s.open}
}

// disk reads a directory of testdata.
func disk(t testing.TB, root string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	must(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		f := &fstest.MapFile{Mode: 0o644}
		if d.Type()&fs.ModeSymlink != 0 {
			to, err := os.Readlink(name)
			out[rel] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(to)}
			return err
		}
		if strings.Contains(rel, "bin/") {
			f.Mode = 0o755
		}
		f.Data, err = os.ReadFile(name)
		out[rel] = f
		return err
	}))
	return out
}

// unpack reads an archive of testdata below a directory of the tree.
func unpack(t testing.TB, archive, below string) fstest.MapFS {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	out := fstest.MapFS{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		must(t, err)
		name := path.Join(below, h.Name)
		file := &fstest.MapFile{Mode: fs.FileMode(h.Mode).Perm(), ModTime: h.ModTime}
		switch h.Typeflag {
		case tar.TypeDir:
			continue
		case tar.TypeSymlink:
			file.Mode, file.Data = fs.ModeSymlink, []byte(h.Linkname)
		default:
			file.Data, err = io.ReadAll(r)
			must(t, err)
		}
		out[name] = file
	}
}

// with returns files with others added; a nil file is removed.
func with(files fstest.MapFS, others fstest.MapFS) fstest.MapFS {
	out := maps.Clone(files)
	for name, f := range others {
		if f == nil {
			delete(out, name)
			continue
		}
		out[name] = f
	}
	return out
}

func file(content string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(content), Mode: 0o644, ModTime: time.Unix(1e9, 0)}
}

func link(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink} }

func look(t testing.TB, cfg Config) Inventory {
	t.Helper()
	i, err := Look(context.Background(), cfg)
	must(t, err)
	return i
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(name, got, 0o644))
	}
	want, err := os.ReadFile(name)
	must(t, err)
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	must(t, e.Encode(v))
	return b.Bytes()
}
