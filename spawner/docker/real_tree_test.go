package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/docker/layer"
	"slipway/spawner/spawnertest"
)

// TestTreesInTheEnginesStore and TestTreesInContainerdsStore: whatever keeps them, trees are found, fetched and filled.
func TestTreesInTheEnginesStore(t *testing.T) { testTrees(t, newWorld(t)) }

func TestTreesInContainerdsStore(t *testing.T) { testTrees(t, containerdWorld(t)) }

// containerdWorld is one on an engine that keeps images in containerd's store.
func containerdWorld(t *testing.T) world {
	t.Helper()
	testenv.Need(t, testenv.CDI) // the store came with the same version
	config := filepath.Join(t.TempDir(), "daemon.json")
	if err := os.WriteFile(config, []byte(`{"features": {"containerd-snapshotter": true}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, "--config-file", config, "--storage-driver", "overlayfs")
	w := e.world(Config{Instance: "test-store"})
	w.importImage(t, nil)
	return w
}

func testTrees(t *testing.T, w world) {
	for name, test := range map[string]func(*testing.T, world){
		"capture": captures, "fetch": fetches, "thaw": thaws, "cut short": thawCutShort, "no environment": thawRefused,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

func quiet(string, int) {}

// captures: one that runs and one that is stopped lie in the same directories, and the image in some of them.
func captures(t *testing.T, w world) {
	l := w.launch(t, "")
	w.up(t, l)
	w.await(t, l.ID, spawnertest.RunsFile)
	running := w.captured(t, l.ID)
	w.stopped(t, l.ID)
	stopped := w.captured(t, l.ID)
	if running.Upper != stopped.Upper || !slices.Equal(running.Layers, stopped.Layers) {
		t.Errorf("it lies at %s over %q, and stopped at %s over %q", running.Upper, running.Layers, stopped.Upper, stopped.Layers)
	}
	if text, err := os.ReadFile(filepath.Join(stopped.Upper, spawnertest.RunsFile)); string(text) != "run\n" {
		t.Errorf("the upper directory does not hold the change: %q, %v", text, err)
	}
	image, err := w.Layers(t.Context(), w.image, quiet)
	if diff := cmp.Diff(stopped.Image, image); err != nil || diff != "" || len(image.Layers) != 1 {
		t.Errorf("Layers = %v %s", err, diff)
	}
	if _, err := os.Stat(filepath.Join(image.Layers[0], "bin/busybox")); err != nil {
		t.Errorf("the layer is not the image's: %v", err)
	}
	if _, err := w.Layers(t.Context(), "slipway-test/none:1", quiet); !errs.Is(err, errs.Missing) {
		t.Errorf("Layers of nothing = %v, want missing", err)
	}
}

func (w world) captured(t *testing.T, id spawner.ID) Capture {
	t.Helper()
	c, err := w.Capture(t.Context(), id)
	if err != nil || c.Fetch != nil {
		t.Fatalf("Capture = %+v, %v, want directories", c, err)
	}
	return c
}

// change makes the changes of a session that are hard to carry.
func change(t *testing.T, upper string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(upper, name) }
	old := time.Unix(1_600_000_000, 0)
	steps := []error{
		os.MkdirAll(at("opt/deep/er"), 0o750),
		os.WriteFile(at("opt/deep/er/a b\n\xff"), []byte("odd"), 0o640),
		os.Lchown(at("opt/deep/er/a b\n\xff"), 7, 8),
		os.Link(at("opt/deep/er/a b\n\xff"), at("opt/twin")),
		os.Symlink("/no/where", at("opt/link")),
		os.WriteFile(at("opt/holes"), nil, 0o600), os.Truncate(at("opt/holes"), 10<<20),
		os.WriteFile(at("opt/cap"), []byte("x"), 0o755),
		unix.Lsetxattr(at("opt/cap"), "security.capability", []byte("\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 0),
		unix.Mknod(at("opt/fifo"), unix.S_IFIFO|0o644, 0),
		unix.Mknod(at("opt/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		os.MkdirAll(at("bin"), 0o755),
		unix.Mknod(at("bin/whoami"), unix.S_IFCHR, 0), // deleted
		unix.Mknod(at("bin/sleep"), unix.S_IFCHR, 0),
		os.MkdirAll(at("bin/sh"), 0o755), // was a link
		os.Chmod(at("opt/deep"), 0o2751),
		os.Chtimes(at("opt/deep"), old, old),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
}

// fetches: what comes through the API is the tree that lies in the directories, of a running session and of a stopped
// one.
func fetches(t *testing.T, w world) {
	l := w.launch(t, "")
	w.up(t, l)
	w.await(t, l.ID, spawnertest.RunsFile)
	w.stopped(t, l.ID)
	near := w.captured(t, l.ID)
	change(t, near.Upper)
	far := w
	far.Backend = w.again(t, Config{Host: w.host, Instance: w.cfg.Instance, Network: w.cfg.Network, Scratch: t.TempDir()})
	far.Backend.remote = true
	base, err := far.Layers(t.Context(), w.image, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"stopped", "running"} {
		if state == "running" {
			w.up(t, l)
			until(t, "it has run again", func() bool { return w.text(t, l.ID, spawnertest.RunsFile) == "run\nrun\n" })
		}
		c, err := far.Capture(t.Context(), l.ID)
		if err != nil || c.Fetch == nil || c.Why == "" || len(c.Lost) == 0 || c.Upper != "" {
			t.Fatalf("Capture = %+v, %v, want one that is to be fetched", c, err)
		}
		upper, layers, err := c.Fetch(t.Context(), t.TempDir(), quiet)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(base.Layers, layers); diff != "" {
			t.Error("the base is not the image's:", diff)
		}
		if diff := cmp.Diff(merged(t, near.Upper, near.Layers), merged(t, upper, layers)); diff != "" {
			t.Errorf("%s: %s", state, diff)
		}
		if exists(filepath.Join(upper, "bin/busybox")) {
			t.Errorf("%s: a file of the image is among the changes", state)
		}
		if now, _, err := w.find(t.Context(), l.ID); err != nil || now.State.Paused {
			t.Errorf("it is paused: %v", err)
		}
	}
	left, err := w.client.ImageList(t.Context(), client.ImageListOptions{All: true, Filters: w.ours()})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("images are left: %+v, %v", left.Items, err)
	}
}

// TestKilledInAFetch: the next service removes what the engine was asked to make for a fetch.
func TestKilledInAFetch(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t, "")
	w.up(t, l)
	h := &holding{b: w.Backend, id: l.ID, limit: mostStill}
	c, _, err := w.find(t.Context(), l.ID)
	if err != nil {
		t.Fatal(err)
	}
	image, err := h.snapshot(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{labelInstance: w.cfg.Instance, labelKind: kindTree, labelID: ""}
	if _, err := w.client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: image, Cmd: []string{"x"}, Labels: labels}}); err != nil {
		t.Fatal(err)
	}
	if all, err := w.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("List = %v, %v, want the session alone", all, err)
	}
	w.clearUp(t.Context())
	if _, err := w.client.ImageInspect(t.Context(), image); !gone(err) {
		t.Errorf("the image is still there: %v", err)
	}
	w.sees(t, l.ID, spawner.Up)
}

// merged lists the tree of an overlay, less what engines make.
func merged(t *testing.T, upper string, layers []string) []string {
	t.Helper()
	at := t.TempDir()
	lowers := append([]string{upper}, layers...)
	if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, "lowerdir="+strings.Join(lowers, ":")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	}()
	var all []string
	links := map[uint64]string{}
	err := filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(at, path)
		if err != nil || layer.OfEngine(name) || name == "dev" || name == "proc" || name == "sys" { // the image lacks the last three
			return err
		}
		h, err := layer.HeaderOf(path)
		if err != nil {
			return err
		}
		if layer.IsBusy(name) {
			h.ModTime = time.Time{}
		}
		var s unix.Stat_t
		if err := unix.Lstat(path, &s); err != nil {
			return err
		}
		twin := ""
		if !d.IsDir() && s.Nlink > 1 {
			if twin = links[s.Ino]; twin == "" {
				links[s.Ino] = name
			}
		}
		text := []byte{}
		if d.Type().IsRegular() {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		all = append(all, fmt.Sprintf("%q %c %o %d:%d %d %d %q %d:%d %q twin %q %.40q", name, h.Typeflag, h.Mode, h.Uid, h.Gid, len(text), h.ModTime.Unix(), h.Linkname,
			h.Devmajor, h.Devminor, h.PAXRecords, twin, strings.TrimRight(string(text), "\x00")))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// thawing returns a launch from an environment, and counts how often it was unpacked.
func (w world) thawing(t *testing.T, fills *int) spawner.Launch {
	t.Helper()
	l := w.launch(t, "")
	l.Spec.Environment = "sha256:1234"
	l.Thaw = func(context.Context) (spawner.Thaw, error) {
		return spawner.Thaw{Digest: l.Spec.Environment, Fill: func(_ context.Context, upper string) error {
			*fills++
			entries, err := os.ReadDir(upper)
			if len(entries) > 0 || err != nil {
				t.Errorf("it is to be filled, and holds %v, %v", entries, err)
			}
			change(t, upper)
			return nil
		}}, nil
	}
	return l
}

// thaws: a new container has the environment's tree, and a kept one keeps its own.
func thaws(t *testing.T, w world) {
	fills := 0
	l := w.thawing(t, &fills)
	for range 2 {
		w.up(t, l)
		if got := w.text(t, l.ID, "/opt/twin") + w.text(t, l.ID, "/bin/whoami"); got != "odd" {
			t.Errorf("the files of the environment are %q", got)
		}
		c := w.stopped(t, l.ID)
		if fills != 1 || c.Config.Labels[labelEnvironment] != l.Spec.Environment || referenceOf(c) != w.image {
			t.Errorf("%d times unpacked, labels %v", fills, c.Config.Labels)
		}
	}
	c := w.captured(t, l.ID)
	if _, err := os.Lstat(filepath.Join(c.Upper, "opt/twin")); c.Environment != l.Spec.Environment || c.Base != w.image || err != nil {
		t.Errorf("Capture = %+v, %v, want the environment's changes among the session's", c, err)
	}
	other := l
	other.Spec.Environment = "sha256:5678"
	if err := w.Start(t.Context(), other); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "sha256:1234") {
		t.Errorf("Start from another environment = %v, want a conflict that names the one", err)
	}
}

// thawCutShort: what is half filled never runs.
func thawCutShort(t *testing.T, w world) {
	fills := 0
	l := w.thawing(t, &fills)
	whole := l.Thaw
	l.Thaw = func(context.Context) (spawner.Thaw, error) {
		return spawner.Thaw{Fill: func(_ context.Context, upper string) error {
			return errors.Join(os.WriteFile(filepath.Join(upper, "half"), nil, 0o644), errors.New("killed"))
		}}, nil
	}
	if err := w.Start(t.Context(), l); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("Start = %v, want the error of the unpacking", err)
	}
	w.sees(t, l.ID, spawner.Created)
	if _, err := w.Capture(t.Context(), l.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("Capture of half a session = %v, want a conflict", err)
	}
	if all, err := w.List(t.Context()); err != nil || all[l.ID] != spawner.Created {
		t.Errorf("List = %v, %v, want it in it", all, err)
	}
	l.Thaw = whole
	w.up(t, l)
	if c := w.captured(t, l.ID); exists(filepath.Join(c.Upper, "half")) || !exists(filepath.Join(c.Upper, "opt/link")) {
		t.Error("it runs in what was half filled")
	}
	w.stopped(t, l.ID)
	again := w.thawing(t, &fills)
	again.Thaw = func(context.Context) (spawner.Thaw, error) {
		return spawner.Thaw{Fill: func(context.Context, string) error { return errors.New("killed") }}, nil
	}
	_ = w.Start(t.Context(), again) // fails as above
	if err := w.Remove(t.Context(), again.ID); err != nil {
		t.Error(err)
	}
	w.sees(t, again.ID, spawner.Absent)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func thawRefused(t *testing.T, w world) {
	fills := 0
	l := w.thawing(t, &fills)
	for name, test := range map[string]struct {
		thaw func(context.Context) (spawner.Thaw, error)
		want errs.Kind
	}{
		"no library": {nil, errs.Missing},
		"not hers":   {func(context.Context) (spawner.Thaw, error) { return spawner.Thaw{}, errs.New(errs.NotFound, "no such") }, errs.NotFound},
		"other image": {func(context.Context) (spawner.Thaw, error) {
			return spawner.Thaw{Digest: "sha256:1234", Image: "sha256:" + strings.Repeat("0", 64)}, nil
		}, errs.Missing},
	} {
		l.Thaw = test.thaw
		if err := w.Start(t.Context(), l); !errs.Is(err, test.want) {
			t.Errorf("%s: Start = %v, want kind %d", name, err, test.want)
		}
		w.sees(t, l.ID, spawner.Absent)
	}
}
