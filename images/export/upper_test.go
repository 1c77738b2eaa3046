package export

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree"
	"slipway/images/tree/treetest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// thaw writes the upper directory of env to a new directory.
func (f *fixture) thaw(env *squashfs.Image) string {
	f.t.Helper()
	upper := filepath.Join(f.t.TempDir(), "upper")
	must(f.t, os.Mkdir(upper, 0o700))
	dir, err := tree.OpenDir(upper)
	must(f.t, err)
	defer dir.Close()
	var done, total int64
	must(f.t, Upper(f.t.Context(), UpperConfig{Base: f.base, Env: env, Dir: dir, Progress: func(d, all int64) { done, total = d, all }}))
	if done != total {
		f.t.Errorf("%d bytes are done in the end, of %d", done, total)
	}
	return upper
}

// shown lists what an overlay of the base and an upper directory shows. Freezing leaves the directory as it was.
func (f *fixture) shown(upper string) []string {
	f.t.Helper()
	point := f.t.TempDir()
	work := filepath.Join(filepath.Dir(upper), "work")
	must(f.t, os.MkdirAll(work, 0o700))
	f.overlay(point, upper, work)
	return treetest.List(f.t, point)
}

func TestThawedSessionIsTheEnvironment(t *testing.T) {
	f := newFixture(t, nastyBase)
	env, tail, want := f.env(nastyChanges)
	upper := f.thaw(env)
	same(t, want, f.shown(upper))
	again, tailAgain := f.freeze(upper, f.at("again"))
	if !bytes.Equal(tail, tailAgain) {
		t.Errorf("the thawed session freezes to another tail, of %d bytes instead of %d: %q", len(tailAgain), len(tail), told(env.Root, again.Root))
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(upper, "opt/sparse"), &st))
	if st.Size != 40<<20 || st.Blocks > 4096 {
		t.Errorf("the sparse file takes %d blocks of %d bytes", st.Blocks, st.Size)
	}
	for path, there := range map[string]bool{"usr/stays": false, "usr/kept/deep/er": false, "usr/lib-linked": false, "usr/chowned": true, "usr/gone": true, "usr/blk": false} {
		if _, err := os.Lstat(filepath.Join(upper, path)); (err == nil) != there {
			t.Errorf("%s is in the upper directory: %v", path, err)
		}
	}
}

func TestNothingChangedIsAnEmptyUpperDirectory(t *testing.T) {
	f := newFixture(t, nastyBase)
	upper := f.thaw(f.base)
	if list, err := os.ReadDir(upper); err != nil || len(list) > 0 {
		t.Errorf("it holds %v, %v", list, err)
	}
	same(t, treetest.List(t, mount(t, f.at("base"))), f.shown(upper))
}

func TestWhatNoSessionMayStartFromIsRefused(t *testing.T) {
	null, disk := &squashfs.Node{Kind: squashfs.CharDevice, Rdev: 1<<8 | 3, Mode: 0o666}, &squashfs.Node{Kind: squashfs.BlockDevice, Rdev: 8 << 8, Mode: 0o666}
	redirected := stored(1, 0)
	redirected.Xattrs = &squashfs.Xattrs{List: []squashfs.Xattr{{Name: "trusted.overlay.redirect", Value: []byte("/etc")}}}
	for name, n := range map[string]*squashfs.Node{"is a device": null, "a device, and so the host's": disk, "trusted.overlay.redirect": redirected} {
		t.Run(name, func(t *testing.T) {
			base, env := &squashfs.Image{Root: plan{}.tree()}, &squashfs.Image{Root: plan{"/a/it": n, "/a/b": stored(1, 0)}.tree()}
			path := t.TempDir()
			dir, err := tree.OpenDir(path)
			must(t, err)
			defer dir.Close()
			err = Upper(t.Context(), UpperConfig{Base: base, Env: env, Dir: dir})
			if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/a/it") || !strings.Contains(err.Error(), name) {
				t.Errorf("err = %v", err)
			}
			if list, _ := os.ReadDir(path); len(list) > 0 {
				t.Errorf("it wrote %v", list)
			}
		})
	}
}

// TestFullDiskIsSaid writes to a file system that has less room than the environment takes.
func TestFullDiskIsSaid(t *testing.T) {
	f := newFixture(t, nastyBase)
	env, _, _ := f.env(nastyChanges)
	random := randomImage(t)
	small := tmpfs(t, "size=1m")
	dir, err := tree.OpenDir(small)
	must(t, err)
	defer dir.Close()
	before := descriptors(t)
	if err := Upper(t.Context(), UpperConfig{Base: f.base, Env: env, Dir: dir}); !errs.Is(err, errs.NoSpace) {
		t.Errorf("upper directory: %v", err)
	}
	if _, err := Directory(t.Context(), DirectoryConfig{Env: env, Root: tmpfs(t, "size=1m"), Digest: hexDigest}); !errs.Is(err, errs.NoSpace) {
		t.Errorf("directory: %v", err)
	}
	root := tmpfs(t, "size=1m")
	if _, err := OCI(t.Context(), OCIConfig{Env: random, Architecture: "amd64"}, filepath.Join(root, "image")); !errs.Is(err, errs.NoSpace) {
		t.Errorf("OCI image: %v", err)
	}
	if left, _ := os.ReadDir(root); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

func TestWorkStopsWithItsContext(t *testing.T) {
	f := newFixture(t, nastyBase)
	env, _, _ := f.env(nastyChanges)
	ctx, cancel := context.WithCancel(t.Context())
	stop := func(done, _ int64) {
		if done > 1<<20 {
			cancel()
		}
	}
	before := descriptors(t)
	dir, err := tree.OpenDir(t.TempDir())
	must(t, err)
	if err := Upper(ctx, UpperConfig{Base: f.base, Env: env, Dir: dir, Progress: stop}); !errors.Is(err, context.Canceled) {
		t.Errorf("upper directory: %v", err)
	}
	must(t, dir.Close())
	if _, err := WriteLayer(ctx, LayerConfig{Env: env, Out: new(bytes.Buffer)}); !errors.Is(err, context.Canceled) {
		t.Errorf("layer: %v", err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

func tmpfs(t testing.TB, options string) string {
	t.Helper()
	point := t.TempDir()
	must(t, unix.Mount("test", point, "tmpfs", 0, options))
	t.Cleanup(func() { must(t, unix.Unmount(point, syscall.MNT_DETACH)) })
	return point
}

func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// TestNoDeviceIsEverMade: not even of a caller that has neither skipped nor refused it.
func TestNoDeviceIsEverMade(t *testing.T) {
	testenv.Need(t, testenv.Root)
	path := t.TempDir()
	dir, err := tree.OpenDir(path)
	must(t, err)
	defer dir.Close()
	for _, kind := range []squashfs.Kind{squashfs.CharDevice, squashfs.BlockDevice} {
		err := plant(t.Context(), &squashfs.Image{}, dir, directory(0o755), func(int64) {}, func(ctx context.Context, p *planter) error {
			return p.add(ctx, "/null", &squashfs.Node{Kind: kind, Rdev: 1<<8 | 3})
		})
		if err == nil || !strings.Contains(err.Error(), "device is the host's") {
			t.Errorf("%v: %v", kind, err)
		}
	}
	if list, _ := os.ReadDir(path); len(list) > 0 {
		t.Errorf("it made %v", list)
	}
}
