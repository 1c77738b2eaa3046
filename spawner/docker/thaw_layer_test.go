package docker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
)

// far returns this world's engine as one that is reached through its API alone.
func (w world) far(t *testing.T) world {
	t.Helper()
	w.Backend = w.again(t, Config{Host: w.host, Instance: w.cfg.Instance, Network: w.cfg.Network, Scratch: t.TempDir()})
	w.remote = true
	return w
}

// thawed lists the images that environments were made to.
func (w world) thawed(t *testing.T) []string {
	t.Helper()
	list, err := w.client.ImageList(t.Context(), client.ImageListOptions{All: true, Filters: w.ours().Add("label", labelKind+"="+kindThaw)})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, i := range list.Items {
		all = append(all, i.ID)
	}
	return all
}

// TestThawThroughTheAPI: a session starts from an environment on an engine whose directories cannot be reached, with
// the environment's very tree, is frozen over the image that the environment stands on, and leaves nothing.
func TestThawThroughTheAPI(t *testing.T) {
	near := newWorld(t)
	w := near.far(t)
	fills := 0
	l := w.thawing(t, &fills)
	upper := filepath.Join(t.TempDir(), "upper")
	l.Thaw = fillThen(l.Thaw, func(dir string) error {
		return errors.Join(exec.Command("cp", "-a", dir, upper).Run(), os.Chmod(upper, 0o755)) // as the image has it
	})
	base, err := near.Layers(t.Context(), w.image, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.up(t, l)
		if got := w.text(t, l.ID, "/opt/twin") + w.text(t, l.ID, "/bin/whoami"); got != "odd" {
			t.Errorf("the files of the environment are %q", got)
		}
	}
	c := w.stopped(t, l.ID)
	if fills != 1 || c.Config.Labels[labelEnvironment] != l.Spec.Environment || referenceOf(c) != w.image || baseOf(c) != base.ImageID {
		t.Errorf("%d times unpacked, labels %v", fills, c.Config.Labels)
	}
	images := w.thawed(t)
	if len(images) != 1 || images[0] != c.Image {
		t.Fatalf("images %q, want %s alone", images, c.Image)
	}
	made, err := w.client.ImageInspect(t.Context(), c.Image)
	if err != nil {
		t.Fatal(err)
	}
	layers := layersOf(made.GraphDriver)
	if diff := cmp.Diff(merged(t, upper, base.Layers), merged(t, layers[0], layers[1:])); diff != "" {
		t.Errorf("the layer makes another tree than the environment: %s", diff)
	}
	for name, from := range map[string]world{"far": w, "near again": {Backend: near.again(t, Config{Host: w.host, Instance: w.cfg.Instance, Scratch: t.TempDir()})}} {
		got, err := from.Capture(t.Context(), l.ID)
		if err != nil || got.Fetch == nil || got.ImageID != base.ImageID || got.Environment != l.Spec.Environment {
			t.Fatalf("%s: Capture = %+v, %v, want one to fetch over %s", name, got, err, base.ImageID)
		}
		upper, under, err := got.Fetch(t.Context(), t.TempDir(), quiet)
		if err != nil {
			t.Fatal(err)
		}
		own, err := tree(c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(merged(t, own.Upper, own.Layers), merged(t, upper, under)); diff != "" {
			t.Errorf("%s: frozen it would be another tree: %s", name, diff)
		}
	}
	if err := w.Remove(t.Context(), l.ID); err != nil {
		t.Error(err)
	}
	if left := w.thawed(t); len(left) > 0 {
		t.Errorf("images are left: %q", left)
	}
	if left, err := os.ReadDir(w.cfg.Scratch); err != nil || len(left) > 1 || len(left) == 1 && strings.HasSuffix(left[0].Name(), unfinished) {
		t.Errorf("left in the scratch directory: %v, %v", left, err)
	}
}

type thawFunc = func(context.Context) (spawner.Thaw, error)

// fillThen returns an environment whose unpacking ends with more.
func fillThen(whole thawFunc, more func(upper string) error) thawFunc {
	return func(ctx context.Context) (spawner.Thaw, error) {
		from, err := whole(ctx)
		fill := from.Fill
		from.Fill = func(ctx context.Context, upper string) error { return errors.Join(fill(ctx, upper), more(upper)) }
		return from, err
	}
}

// TestThawThroughTheAPICutShort: what fails leaves no container and no image, and what a kill left goes at the next
// start.
func TestThawThroughTheAPICutShort(t *testing.T) {
	w := newWorld(t).far(t)
	fills := 0
	l := w.thawing(t, &fills)
	whole := l.Thaw
	for name, test := range map[string]struct {
		after func(upper string) error
		want  errs.Kind
	}{
		"a name that deletes": {func(upper string) error { return os.WriteFile(filepath.Join(upper, ".wh.x"), nil, 0o600) }, errs.Conflict},
		"killed":              {func(string) error { return errors.New("killed") }, errs.Internal},
	} {
		l.Thaw = fillThen(whole, test.after)
		if err := w.Start(t.Context(), l); err == nil || errs.KindOf(err) != test.want {
			t.Errorf("%s: Start = %v, want kind %d", name, err, test.want)
		}
		w.sees(t, l.ID, spawner.Absent)
		if left, _ := os.ReadDir(w.cfg.Scratch); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
	base, err := w.client.ImageInspect(t.Context(), w.image)
	if err != nil {
		t.Fatal(err)
	}
	from, err := whole(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.layered(t.Context(), base.ID, from); err != nil { // and the service is killed before there is a container
		t.Fatal(err)
	}
	w.clearUp(t.Context())
	if left := w.thawed(t); len(left) > 0 {
		t.Errorf("images are left: %q", left)
	}
	w.cfg.Scratch = ""
	l.Thaw = whole
	if err := w.Start(t.Context(), l); !errs.Is(err, errs.Missing) {
		t.Errorf("Start without a place = %v, want missing", err)
	}
}
