package inventory

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"slipway/images/squashfs"
	"slipway/internal/testenv"
)

// open parses an image file.
func open(t testing.TB, name string) *squashfs.Image {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	s, err := f.Stat()
	must(t, err)
	i, err := squashfs.Parse(f, s.Size())
	must(t, err)
	return i
}

// pack makes an image of a directory.
func pack(t testing.TB, dir string) *squashfs.Image {
	t.Helper()
	testenv.Need(t, testenv.Mksquashfs)
	out := filepath.Join(t.TempDir(), "x.sqfs")
	if text, err := exec.Command("mksquashfs", dir, out, "-comp", "zstd", "-quiet", "-no-progress", "-all-root").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return open(t, out)
}

func extract(t testing.TB, archive, to string) {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		at := filepath.Join(to, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			must(t, os.MkdirAll(at, 0o755))
		case tar.TypeSymlink:
			must(t, os.Symlink(h.Linkname, at))
		default:
			b, err := io.ReadAll(r)
			must(t, err)
			must(t, os.WriteFile(at, b, fs.FileMode(h.Mode)))
			must(t, os.Chtimes(at, h.ModTime, h.ModTime))
		}
	}
}

// An image that mksquashfs made is looked at as its files are.
func TestLookIntoASquashfs(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(filepath.Join(dir, "x"), os.DirFS("testdata/env")))
	must(t, os.Chmod(filepath.Join(dir, "x/usr/bin/python3.13"), 0o755))
	extract(t, "testdata/checkout-packed.tar.gz", filepath.Join(dir, "x/opt"))
	image := TreeOf(pack(t, filepath.Join(dir, "x")))
	got := look(t, Config{Tree: image, Path: venvPath})
	if len(got.Git) != 1 || got.Git[0].State != Clean || got.Git[0].Commit != head {
		t.Errorf("%+v", got.Git)
	}
	want := look(t, Config{Tree: newStore().tree(disk(t, "testdata/env")), Path: venvPath})
	got.Git = nil
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	f, err := Files(context.Background(), image, image, nil)
	must(t, err)
	if !f.none() {
		t.Errorf("%+v", f)
	}
}

// benchImage returns two trees of one image that share no node: the squashfs that SLIPWAY_BENCH_IMAGE names, else a
// made-up one of 190,000 inodes and 500 packages.
func benchImage(b *testing.B) (Tree, Tree) {
	b.Helper()
	if name := os.Getenv("SLIPWAY_BENCH_IMAGE"); name != "" {
		return TreeOf(open(b, name)), TreeOf(open(b, name))
	}
	s, files := newStore(), manyFiles()
	return s.tree(files), s.tree(files)
}

// manyFiles are 250 packages of pip and 250 of apt, with all of their files.
func manyFiles() fstest.MapFS {
	files := fstest.MapFS{}
	var status, list, record strings.Builder
	for p := range 250 {
		fmt.Fprintf(&status, "Package: lib%d\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.%d\n\n", p, p)
		list.Reset()
		record.Reset()
		for f := range 375 {
			name := fmt.Sprintf("usr/lib/lib%d/%d/file-%d.so", p, f%10, f)
			files[name] = file(name)
			list.WriteString("/" + name + "\n")
			name = fmt.Sprintf("pkg%d/%d/module_%d.py", p, f%10, f)
			files[site+name] = file(name)
			record.WriteString(name + ",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,1234\n")
		}
		info := fmt.Sprintf("%spkg%d-1.dist-info/", site, p)
		files[info+"METADATA"] = file(fmt.Sprintf("Name: pkg%d\nVersion: 1\n\n%s", p, strings.Repeat("words ", 2000)))
		files[info+"RECORD"] = file(record.String())
		files[fmt.Sprintf("var/lib/dpkg/info/lib%d.list", p)] = file(list.String())
	}
	files["var/lib/dpkg/status"] = file(status.String())
	return files
}

func BenchmarkLook(b *testing.B) {
	tree, _ := benchImage(b)
	var last Inventory
	for b.Loop() {
		last = look(b, Config{Tree: tree})
	}
	b.ReportMetric(float64(len(last.Packages)), "packages")
}

func BenchmarkLookOutsideNothing(b *testing.B) {
	tree, _ := benchImage(b)
	for b.Loop() {
		look(b, Config{Tree: tree, Roots: []string{}})
	}
}

func BenchmarkLookWithBase(b *testing.B) {
	old, now := benchImage(b)
	base := &Known{Tree: old, Inventory: look(b, Config{Tree: old})}
	for b.Loop() {
		look(b, Config{Tree: now, Base: base})
	}
}

func BenchmarkFiles(b *testing.B) {
	old, now := benchImage(b)
	shared := &squashfs.Superblock{InodeTable: 1 << 62, Fragments: 1 << 31}
	for b.Loop() {
		_, err := Files(context.Background(), old, now, shared)
		must(b, err)
	}
}
