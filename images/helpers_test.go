package images

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/apptainer"
	"slipway/images/blob"
	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/images/sif"
	"slipway/images/tree/treetest"
	"slipway/internal/testenv"
)

// fixture is an overlay as an engine would keep it for a session.
type fixture struct {
	t       testing.TB
	dir     string
	layers  []string
	upper   string
	options string // of the overlay, each with a comma behind
}

// newFixture makes a base of two layers by calling fill with each.
func newFixture(t testing.TB, fill ...func(root string) error) *fixture {
	t.Helper()
	testenv.Need(t, testenv.Root)
	f := &fixture{t: t, dir: t.TempDir()}
	f.upper = filepath.Join(f.dir, "upper")
	for _, d := range []string{"upper", "work", "merged"} {
		must(t, os.Mkdir(filepath.Join(f.dir, d), 0o755))
	}
	for i, fn := range fill {
		layer := filepath.Join(f.dir, fmt.Sprintf("layer%d", i))
		must(t, os.Mkdir(layer, 0o755), fn(layer))
		f.layers = append([]string{layer}, f.layers...)
	}
	return f
}

// change runs fn on the merged tree, so that the kernel makes the upper directory what it must be.
func (f *fixture) change(fn func(root string) error) {
	f.t.Helper()
	merged := filepath.Join(f.dir, "merged")
	options := fmt.Sprintf("%slowerdir=%s,upperdir=%s,workdir=%s", f.options, strings.Join(f.layers, ":"), f.upper, filepath.Join(f.dir, "work"))
	must(f.t, unix.Mount("test", merged, "overlay", unix.MS_NODEV, options))
	err := fn(merged)
	must(f.t, unix.Unmount(merged, 0), err)
}

// lines describes the merged tree.
func (f *fixture) lines(skip ...string) []string {
	f.t.Helper()
	merged := filepath.Join(f.dir, "merged")
	must(f.t, unix.Mount("test", merged, "overlay", unix.MS_RDONLY, "redirect_dir=follow,metacopy=on,lowerdir="+strings.Join(append([]string{f.upper}, f.layers...), ":")))
	defer func() { must(f.t, unix.Unmount(merged, 0)) }()
	return treetest.List(f.t, merged, skip...)
}

func (f *fixture) source() Source {
	return Source{
		Layers: f.layers, Upper: f.upper, Base: manifest.Base{Reference: "example/base:1", Digest: blob.Prefix + strings.Repeat("0123", 16)},
		Config: apptainer.ImageConfig{Env: []string{"PATH=/opt/tools:/usr/bin:/bin", "GREETING=it's \"$HOME\" `x` \\\nnew \\", "HOME=/home/image"}, Cmd: []string{"/bin/sh"}},
	}
}

func newLibrary(t testing.TB, strip ...string) *Library {
	t.Helper()
	return openLibrary(t, Config{Dir: filepath.Join(t.TempDir(), "library"), Strip: strip})
}

func openLibrary(t testing.TB, cfg Config) *Library {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	l, err := Open(cfg)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func freeze(t testing.TB, l *Library, f *fixture, change func(*Request)) records.Environment {
	t.Helper()
	req := Request{Owner: "alice", Key: "s1", Source: f.source()}
	if change != nil {
		change(&req)
	}
	e, err := l.Freeze(context.Background(), req)
	must(t, err)
	noLeftovers(t, l)
	if _, err := l.Ready(context.Background(), e.Digest); err == nil { // its file is whole then
		noLeftovers(t, l)
	}
	return e
}

// frozenThin is freeze, and leaves the image as the freeze left it: thin.
func frozenThin(t testing.TB, l *Library, f *fixture, change func(*Request)) records.Environment {
	t.Helper()
	req := Request{Owner: "alice", Key: "s1", Source: f.source()}
	if change != nil {
		change(&req)
	}
	e, err := l.Freeze(t.Context(), req)
	must(t, err)
	noLeftovers(t, l)
	return e
}

func noLeftovers(t testing.TB, l *Library) {
	t.Helper()
	left, err := filepath.Glob(l.dir.Path("work", "*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left in work: %q", left)
	}
	tails, err := filepath.Glob(l.dir.Path("tails", "*"))
	must(t, err)
	for _, dir := range tails {
		if _, err := os.Stat(l.dir.Image(blob.Prefix + filepath.Base(dir))); err != nil {
			t.Errorf("packs without an image: %v", err)
		}
	}
}

// mountSIF mounts the image's partition through the kernel.
func mountSIF(t testing.TB, image string) string {
	t.Helper()
	return mountAt(t, image, sif.PartitionOffset)
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// write makes a file with all directories above it.
func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
