package export

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree/treetest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func layerOf(t testing.TB, base, env *squashfs.Image) (Layer, []byte) {
	t.Helper()
	var out bytes.Buffer
	layer, err := WriteLayer(t.Context(), LayerConfig{Base: base, Env: env, Out: &out})
	must(t, err)
	return layer, out.Bytes()
}

// unstack extracts layers with GNU tar, turns marks into an overlay's, and lists what the overlay shows.
func unstack(t testing.TB, blobs ...[]byte) []string {
	t.Helper()
	top := t.TempDir()
	var dirs []string
	for i, blob := range blobs {
		dir, file := filepath.Join(top, fmt.Sprint(i)), filepath.Join(top, fmt.Sprint(i, ".tar.gz"))
		must(t, os.Mkdir(dir, 0o755), os.WriteFile(file, blob, 0o644))
		run(t, "tar", "--xattrs", "--xattrs-include=*", "--numeric-owner", "-xpzf", file, "-C", dir)
		must(t, marks(dir))
		dirs = append([]string{dir}, dirs...)
	}
	if len(dirs) == 1 {
		return treetest.List(t, dirs[0])
	}
	point := t.TempDir()
	must(t, unix.Mount("test", point, "overlay", unix.MS_RDONLY, "lowerdir="+strings.Join(dirs, ":")))
	t.Cleanup(func() { must(t, unix.Unmount(point, 0)) })
	return treetest.List(t, point)
}

func marks(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		rest, mark := strings.CutPrefix(e.Name(), whiteoutPrefix)
		switch {
		case e.IsDir():
			err = marks(path)
		case e.Name() == ".wh..wh..opq":
			err = errors.Join(os.Remove(path), unix.Setxattr(dir, "trusted.overlay.opaque", []byte("y"), 0))
		case mark:
			err = errors.Join(os.Remove(path), unix.Mknod(filepath.Join(dir, rest), unix.S_IFCHR, 0))
		}
		if err != nil {
			return err
		}
	}
	return os.Chtimes(dir, st.ModTime(), st.ModTime())
}

func TestLayersStackToTheEnvironment(t *testing.T) {
	f := newFixture(t, nastyBase)
	env, _, want := f.env(nastyChanges)
	_, base := layerOf(t, nil, f.base)
	changes, top := layerOf(t, f.base, env)
	same(t, want, unstack(t, base, top))
	if changes.SparseFiles != 1 || changes.SparseBytes < 39<<20 || changes.Sockets.Count != 0 {
		t.Errorf("layer %+v", changes)
	}
	whole, all := layerOf(t, nil, env)
	same(t, want, unstack(t, all))
	if whole.SparseFiles != 2 {
		t.Errorf("whole layer %+v", whole)
	}
}

func TestLayerIsOneGzipStreamThatItsDescriptorNames(t *testing.T) {
	layer, blob := layerOf(t, nil, randomImage(t))
	in, err := gzip.NewReader(bytes.NewReader(blob))
	must(t, err)
	in.Multistream(false) // some readers stop behind the first
	plain, err := io.ReadAll(in)
	must(t, err)
	if len(plain) < 3<<20 || layer.Digest != digest.FromBytes(blob) || layer.DiffID != digest.FromBytes(plain) || layer.Size != int64(len(blob)) {
		t.Errorf("%+v for %d bytes, %d packed", layer, len(plain), len(blob))
	}
}

func TestLayerDoesNotDependOnTheNumberOfWorkers(t *testing.T) {
	f := newFixture(t, nastyBase)
	env, _, _ := f.env(nastyChanges)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var seen []Layer
	for _, n := range []int{1, 2, 7} {
		runtime.GOMAXPROCS(n)
		layer, _ := layerOf(t, f.base, parse(t, f.at("env")))
		seen = append(seen, layer)
		if layer.Digest != seen[0].Digest || layer.DiffID != seen[0].DiffID {
			t.Errorf("with %d workers: %+v, not %+v", n, layer, seen[0])
		}
	}
	if other, _ := layerOf(t, nil, env); other.Digest == seen[0].Digest {
		t.Error("another layer has the same digest")
	}
}

func TestWhatLayersCannotHoldIsRefused(t *testing.T) {
	equals := stored(1, 0)
	equals.Xattrs = &squashfs.Xattrs{List: []squashfs.Xattr{{Name: "user.a=b"}}}
	for path, n := range map[string]*squashfs.Node{
		"/a/.wh.name": {Kind: squashfs.File}, "/.wh.d/f": {Kind: squashfs.File}, "/dev/none": {Kind: squashfs.CharDevice}, "/x": equals,
	} {
		t.Run(path, func(t *testing.T) {
			var out bytes.Buffer
			_, err := WriteLayer(t.Context(), LayerConfig{Env: &squashfs.Image{Root: plan{path: n}.tree()}, Out: &out})
			if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), strings.TrimSuffix(path, "/f")) || out.Len() > 0 {
				t.Errorf("%d bytes written, err = %v", out.Len(), err)
			}
		})
	}
	t.Run("in the base it is the base layer's", func(t *testing.T) {
		n := &squashfs.Node{Kind: squashfs.File}
		image := &squashfs.Image{Root: plan{"/.wh.name": n}.tree()}
		if _, err := WriteLayer(t.Context(), LayerConfig{Base: image, Env: image, Out: new(bytes.Buffer)}); err != nil {
			t.Error(err)
		}
	})
}

func TestSocketsAreListed(t *testing.T) {
	image := &squashfs.Image{Root: plan{"/run/s": {Kind: squashfs.Socket}, "/run/f": {Kind: squashfs.File}}.tree()}
	layer, blob := layerOf(t, nil, image)
	if layer.Sockets.Count != 1 || layer.Sockets.Paths[0] != "/run/s" {
		t.Errorf("sockets %+v", layer.Sockets)
	}
	if names := entries(t, blob); strings.Join(names, " ") != "./ run/ run/f" {
		t.Errorf("entries %q", names)
	}
}

func TestMarksStandWhereEnginesLookForThem(t *testing.T) {
	base := plan{"/a/b": stored(1, 0), "/c/d": stored(2, 0), "/c/e": stored(3, 0)}.tree()
	env := plan{"/a": directory(0o755), "/c/e": stored(3, 0)}.tree()
	_, blob := layerOf(t, &squashfs.Image{Root: base}, &squashfs.Image{Root: env})
	if names := entries(t, blob); strings.Join(names, " ") != "./ a/ a/.wh..wh..opq c/ c/.wh.d" {
		t.Errorf("entries %q", names)
	}
}

func entries(t testing.TB, blob []byte) []string {
	t.Helper()
	in, err := gzip.NewReader(bytes.NewReader(blob))
	must(t, err)
	var out []string
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		must(t, err)
		out = append(out, h.Name)
	}
}

// randomImage is a squashfs with a few megabytes that do not compress.
func randomImage(t testing.TB) *squashfs.Image {
	t.Helper()
	testenv.Need(t, testenv.Mksquashfs)
	dir := t.TempDir()
	r := rand.NewChaCha8([32]byte{1})
	for i := range 4 {
		b := make([]byte, 1<<20+i)
		r.Read(b)
		must(t, write(filepath.Join(dir, "tree", fmt.Sprint(i)), string(b)))
	}
	must(t, os.Chtimes(filepath.Join(dir, "tree"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	return pack(t, filepath.Join(dir, "tree"), filepath.Join(dir, "image"))
}

func TestItemsComeBackInOrder(t *testing.T) {
	var got []int
	err := inOrder(t.Context(), func(put func(*int) error) error {
		for i := range 500 {
			if err := put(&i); err != nil {
				return err
			}
		}
		return nil
	}, func(i *int) error {
		for range *i % 7 {
			runtime.Gosched()
		}
		*i *= 2
		return nil
	}, func(i *int) error { got = append(got, *i); return nil })
	must(t, err)
	for i, v := range got {
		if v != 2*i || len(got) != 500 {
			t.Fatalf("%d values, at %d is %d", len(got), i, v)
		}
	}
}

func TestFirstErrorEndsAll(t *testing.T) {
	broken := errors.New("broken")
	at := func(fail bool) error {
		if fail {
			return broken
		}
		return nil
	}
	for _, where := range []string{"feed", "work", "done"} {
		t.Run(where, func(t *testing.T) {
			err := inOrder(context.Background(), func(put func(int) error) error {
				for i := range 1000 {
					if err := errors.Join(put(i), at(where == "feed" && i == 300)); err != nil {
						return err
					}
				}
				return nil
			}, func(i int) error { return at(where == "work" && i == 300) }, func(i int) error { return at(where == "done" && i == 300) })
			if !errors.Is(err, broken) {
				t.Errorf("err = %v", err)
			}
		})
	}
}
