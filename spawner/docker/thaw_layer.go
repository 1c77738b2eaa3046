package docker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/docker/layer"
)

// Where an engine's directories cannot be reached, an environment's changes become a layer over its image. No archive
// that is copied into a container can delete, and a layer can. The engine is sent that layer alone: it finds those of
// the image by their digests.
const (
	kindThaw  = "thaw"         // the kind label of an image that is an environment over its base
	labelBase = "slipway.base" // on a container of such an image: the ID of the image that the environment stands on
)

// baseOf returns the ID of the image that a container's changes are counted from.
func baseOf(c container.InspectResponse) string {
	if base := c.Config.Labels[labelBase]; base != "" {
		return base
	}
	return c.Image
}

// thawLayered makes the container of a workload of an image that has its environment in it.
func (b *Backend) thawLayered(ctx context.Context, p plan, from spawner.Thaw) error {
	b.trees.Lock() // an image without a container is swept away
	defer b.trees.Unlock()
	p.Report("Sending the environment to the engine (its directories cannot be written, which would be quicker)", -1)
	base := p.image
	id, err := b.layered(ctx, base, from)
	if err != nil {
		return fmt.Errorf("start %s from environment %s: %w", p.ID, p.Spec.Environment, err)
	}
	p.image = id
	p.labels = map[string]string{labelImage: p.Spec.Image, labelBase: base}
	return b.order(ctx, nameOf(p.ID), p)
}

// layered returns the ID of an image that has an environment's changes as one more layer than its base. It runs under
// b.trees.
func (b *Backend) layered(ctx context.Context, base string, from spawner.Thaw) (string, error) {
	image, err := b.client.ImageInspect(ctx, base)
	if err != nil {
		return "", b.explain(err, "look at image %s", base)
	}
	dir, err := b.scratch(ctx)
	if err != nil {
		return "", err
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			b.log.Error("an environment's copied changes cannot be removed", "path", dir, "error", err)
		}
	}()
	if err := from.Fill(ctx, dir); err != nil {
		return "", fmt.Errorf("fill a layer: %w", err)
	}
	if err := layer.CheckHoles(dir); err != nil {
		return "", err
	}
	return b.imageWith(ctx, image, dir)
}

// imageWith returns the ID of an image over another that shows an upper directory's changes. One that is there already
// is taken.
func (b *Backend) imageWith(ctx context.Context, image client.ImageInspectResult, dir string) (string, error) {
	digest, size, err := layer.Measure(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("make a layer: %w", err)
	}
	config, err := b.configOver(image, digest)
	if err != nil {
		return "", err
	}
	id := digestOf(config)
	if _, err := b.client.ImageInspect(ctx, id); err == nil {
		return id, nil
	}
	err = b.load(ctx, func(w io.Writer) error {
		return layer.WriteImage(
			w, config, len(image.RootFS.Layers), size, func(w io.Writer) error { return layer.Write(ctx, w, dir) },
		)
	})
	if err == nil {
		_, err = b.client.ImageInspect(ctx, id)
	}
	if err != nil {
		return "", errs.New(
			errs.Missing, "the engine does not take the environment as a layer over its image: %w", err,
		).With("let the service run on the engine's host as root, or start from an image")
	}
	return id, nil
}

// scratch makes an empty directory that prune removes after a kill.
func (b *Backend) scratch(ctx context.Context) (string, error) {
	if b.cfg.Scratch == "" {
		return "", errs.New(
			errs.Missing, "the engine's directories cannot be written, and there is no place to unpack an environment",
		).With("let the service run on the engine's host as root, or start from an image")
	}
	if err := b.prune(ctx); err != nil {
		return "", err
	}
	name := make([]byte, sha256.Size)
	_, _ = rand.Read(name) // never fails
	dir := filepath.Join(b.cfg.Scratch, hex.EncodeToString(name)+unfinished)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("unpack the environment: %w", err)
	}
	return dir, nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// configOver describes an image of one layer more. Equal layers give equal images.
func (b *Backend) configOver(image client.ImageInspectResult, layer string) ([]byte, error) {
	config, labels := map[string]any{}, map[string]string{}
	if image.Config != nil {
		text, err := json.Marshal(image.Config)
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if err != nil {
			return nil, fmt.Errorf("describe an image over %s: %w", image.ID, err)
		}
		maps.Copy(labels, image.Config.Labels)
	}
	labels[labelInstance], labels[labelKind], labels[labelID] = b.cfg.Instance, kindThaw, ""
	config["Labels"] = labels
	layers := append(append([]string{}, image.RootFS.Layers...), layer)
	return json.Marshal(map[string]any{
		"architecture": image.Architecture, "variant": image.Variant, "os": image.Os, "created": time.Unix(0, 0).UTC(),
		"config": config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": layers},
	})
}

// load sends an archive to the engine.
func (b *Backend) load(ctx context.Context, write func(io.Writer) error) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err) // never fails
		done <- err
	}()
	answer, err := b.client.ImageLoad(ctx, r, client.ImageLoadWithQuiet(true))
	if err == nil {
		err = errors.Join(layer.ReadLoad(answer), answer.Close())
	}
	_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // never fails
	if wrote := <-done; wrote != nil && !errors.Is(wrote, io.ErrClosedPipe) {
		return wrote
	}
	return err
}

// sweepThawed removes the images of environments of which no container is left. It waits for nobody: whoever thaws or
// fetches now has its own swept later.
func (b *Backend) sweepThawed(ctx context.Context) {
	if !b.trees.TryLock() {
		return
	}
	defer b.trees.Unlock()
	if err := b.sweepThawedLocked(ctx); err != nil {
		b.log.Warn(
			"an environment that no container uses stays in the engine; the next removal tries again", "error", err,
		)
	}
}

func (b *Backend) sweepThawedLocked(ctx context.Context) error {
	list, err := b.client.ImageList(
		ctx, client.ImageListOptions{All: true, Filters: b.ours().Add("label", labelKind+"="+kindThaw)},
	)
	if err != nil {
		return b.explain(err, "look for environments that nobody uses")
	}
	for _, i := range list.Items {
		_, err := b.client.ImageRemove(ctx, i.ID, client.ImageRemoveOptions{})
		if err != nil && !gone(err) && !cerrdefs.IsConflict(err) { // a conflict: a container has it
			return b.explain(err, "remove the environment %s that nobody uses", i.ID)
		}
	}
	return nil
}
