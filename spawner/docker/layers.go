package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner/docker/layer"
	"slipway/spawner/docker/overlay"
)

// unpacked returns the directory of an image's whole tree, and when the image was made. It runs under b.trees.
func (b *Backend) unpacked(
	ctx context.Context, image string, tell func(string, int),
) (dir string, created time.Time, err error) {
	has, err := b.client.ImageInspect(ctx, image)
	if err != nil {
		return "", created, b.explain(err, "look for image %s", image)
	}
	created = moment(has.Created)
	_, hex, _ := strings.Cut(has.ID, ":")
	if b.cfg.Scratch == "" || hex == "" || strings.ContainsAny(hex, "/.") {
		return "", created, errs.New(
			errs.Missing,
			"the tree of image %s can only be had through the engine's API, and there is no place to keep it", image,
		).With("run the service on the engine's host, as root")
	}
	dir = filepath.Join(b.cfg.Scratch, hex)
	if err := b.prune(ctx); err != nil {
		return "", created, err
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, created, err
	}
	half := dir + unfinished
	if err := os.MkdirAll(half, 0o700); err != nil {
		return "", created, fmt.Errorf("unpack image %s: %w", image, err)
	}
	u := &layer.Unpacking{
		Dir: half, Time: created, Told: telling(tell, "Fetching the image once through the engine's API"),
	}
	err = b.still(ctx, kindTree, has.ID, func(container string) error { return b.export(ctx, container, u) })
	if err == nil {
		err = flushAll(half)
	}
	if err == nil {
		err = os.Rename(half, dir)
	}
	if err != nil {
		return "", created, fmt.Errorf("unpack image %s: %w", image, errors.Join(err, os.RemoveAll(half)))
	}
	return dir, created, nil
}

// unfinished ends the name of a tree that is not whole.
const unfinished = ".part"

// prune removes the trees of images that the engine has no more, and what a killed service left half done.
func (b *Backend) prune(ctx context.Context) error {
	entries, err := os.ReadDir(b.cfg.Scratch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		_, err := b.client.ImageInspect(ctx, "sha256:"+strings.TrimSuffix(e.Name(), unfinished))
		if err != nil && !gone(err) {
			return b.explain(err, "look for the image of the tree %s", e.Name())
		}
		if err == nil && !strings.HasSuffix(e.Name(), unfinished) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(b.cfg.Scratch, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Layers returns an image of the engine with the directories of its layers, so that it can be converted before anybody
// freezes. An engine with its own store just says where they lie. For containerd's store a container is made of the
// image, looked at and removed; it never runs. When the directories cannot be read, the image is exported once, which
// takes as long as reading all of it; tell is told.
func (b *Backend) Layers(ctx context.Context, ref string, tell func(message string, percent int)) (Image, error) {
	b.trees.Lock()
	defer b.trees.Unlock()
	has, err := b.client.ImageInspect(ctx, ref)
	if err != nil {
		return Image{}, b.explain(err, "look for image %s", ref)
	}
	out := imageOf(has)
	out.Layers, err = b.layers(ctx, has)
	if errs.Is(err, errs.Missing) {
		var dir string
		dir, _, err = b.unpacked(ctx, has.ID, tell)
		out.Layers = []string{dir}
	}
	if err != nil {
		return Image{}, err
	}
	return out, nil
}

// layers finds the directories of an image. An error of kind Missing says that they cannot be read.
func (b *Backend) layers(ctx context.Context, image client.ImageInspectResult) ([]string, error) {
	if all := layersOf(image.GraphDriver); len(all) > 0 {
		if err := b.near(ctx); err != nil {
			return nil, err
		}
		s, err := visible(overlay.Stack{Upper: all[0], Layers: all})
		return s.Layers, err
	}
	var s overlay.Stack
	err := b.still(ctx, kindTree, image.ID, func(id string) error {
		c, found, err := b.inspect(ctx, id)
		if err == nil && !found {
			err = errs.New(errs.Unavailable, "look where image %s lies: its container vanished", image.ID)
		}
		if err == nil {
			s, err = b.locate(ctx, c, len(image.RootFS.Layers))
		}
		return err
	})
	return s.Layers, err
}
