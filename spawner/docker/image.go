package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/internal/memsize"
	"slipway/spawner"
)

// Images gives the references of the images that the engine has, sorted.
func (b *Backend) Images(ctx context.Context) ([]string, error) {
	list, err := b.client.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, b.explain(err, "list the images")
	}
	var refs []string
	for _, i := range list.Items {
		for _, ref := range i.RepoTags {
			if ref != "<none>:<none>" {
				refs = append(refs, ref)
			}
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs), nil
}

// image sees to it that the engine has the launch's image, and gives its ID.
func (b *Backend) image(ctx context.Context, l spawner.Launch) (string, error) {
	ref := l.Spec.Image
	has, err := b.client.ImageInspect(ctx, ref)
	if gone(err) {
		if !b.cfg.Pull || !pullable(ref) {
			return "", errs.New(errs.Missing, "start %s: image %s is not in the Docker Engine", l.ID, ref).With(remedyFor(ref))
		}
		if err := b.pull(ctx, ref, l.Report); err != nil {
			return "", err
		}
		has, err = b.client.ImageInspect(ctx, ref)
	}
	if err != nil {
		return "", b.explain(err, "look for image %s", ref)
	}
	return has.ID, nil
}

// ownPrefix is that of images which this repository has recipes for. No registry has them.
const ownPrefix = "slipway/"

// pullable reports whether a registry may have the image.
func pullable(ref string) bool {
	named, err := reference.ParseNormalizedNamed(ref)
	return err == nil && !strings.HasPrefix(reference.FamiliarName(named), ownPrefix)
}

// remedyFor says how an image comes into the engine.
func remedyFor(ref string) string {
	if pullable(ref) {
		return "`docker pull " + ref + "`"
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "name an image that `docker images` shows"
	}
	recipe := strings.TrimPrefix(reference.FamiliarName(named), ownPrefix)
	return "build it with deploy/images/" + recipe + "/build"
}

// pull fetches an image from its registry.
func (b *Backend) pull(ctx context.Context, ref string, report func(string, int)) error {
	report("Pulling image "+ref, -1)
	stream, err := b.client.ImagePull(ctx, ref, client.ImagePullOptions{})
	if gone(err) {
		return errs.New(errs.Missing, "pull image %s: the registry does not have it: %w", ref, err).With("check the name and the tag")
	}
	if err != nil {
		return b.explain(err, "pull image %s", ref)
	}
	progress := progress{ref: ref, layers: map[string]layer{}, last: -1, report: report}
	for m, err := range stream.JSONMessages(ctx) {
		if err == nil && m.Error != nil {
			err = m.Error
		}
		if err != nil {
			return b.explain(err, "pull image %s", ref)
		}
		progress.add(m)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pull image %s: %w", ref, err)
	}
	return nil
}

// progress adds up what the layers of an image say of their download.
type progress struct {
	ref    string
	layers map[string]layer
	last   int // the percentage that was told last
	report func(string, int)
}

// layer is how far one layer has come, in bytes.
type layer struct{ current, total int64 }

// add takes one message of a pull, and tells the user when the percentage has grown. Layers become known one after another,
// so the sum may shrink: that is not told.
func (p *progress) add(m jsonstream.Message) {
	switch known := p.layers[m.ID]; {
	case m.ID == "":
		return
	case m.Status == "Downloading" && m.Progress != nil:
		p.layers[m.ID] = layer{m.Progress.Current, m.Progress.Total}
	case m.Status == "Download complete":
		p.layers[m.ID] = layer{known.total, known.total}
	default:
		return
	}
	var sum layer
	for _, l := range p.layers {
		sum.current, sum.total = sum.current+l.current, sum.total+l.total
	}
	if sum.total <= 0 {
		return
	}
	if percent := int(100 * sum.current / sum.total); percent > p.last {
		p.last = percent
		p.report(fmt.Sprintf("Pulling image %s: %s of %s", p.ref, mebibytes(sum.current), mebibytes(sum.total)), percent)
	}
}

func mebibytes(n int64) string { return memsize.Format(max(n>>20, 1) << 20) }
