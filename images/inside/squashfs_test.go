package inside

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

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

// SLIPWAY_BENCH_IMAGE names a squashfs of a whole image.
func benchImage(b *testing.B) Tree {
	b.Helper()
	name := os.Getenv("SLIPWAY_BENCH_IMAGE")
	if name == "" {
		b.Skip("SLIPWAY_BENCH_IMAGE names no squashfs")
	}
	return TreeOf(open(b, name))
}

func BenchmarkLook(b *testing.B) {
	tree := benchImage(b)
	var last Inventory
	for b.Loop() {
		last = look(b, Config{Tree: tree})
	}
	b.ReportMetric(float64(len(last.Packages)), "packages")
}

func BenchmarkLookOutsideNothing(b *testing.B) {
	tree := benchImage(b)
	for b.Loop() {
		look(b, Config{Tree: tree, Roots: []string{}})
	}
}

func BenchmarkLookWithBase(b *testing.B) {
	old, now := benchImage(b), benchImage(b) // parsed twice: they share no node
	base := &Known{Tree: old, Inventory: look(b, Config{Tree: old})}
	for b.Loop() {
		look(b, Config{Tree: now, Base: base})
	}
}

func BenchmarkFiles(b *testing.B) {
	old, now := benchImage(b), benchImage(b)
	shared := &squashfs.Superblock{InodeTable: 1 << 62, Fragments: 1 << 31}
	for b.Loop() {
		_, err := Files(context.Background(), old, now, shared)
		must(b, err)
	}
}
