package docker

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Images returns the references of the images that the engine has, sorted.
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

// image sees to it that the engine has the launch's image, and returns its ID.
func (b *Backend) image(ctx context.Context, l spawner.Launch) (string, error) {
	ref := l.Spec.Image
	has, err := b.client.ImageInspect(ctx, ref)
	if gone(err) {
		if !b.cfg.Pull || !pullable(ref) {
			return "", errs.New(errs.Missing, "start %s: image %s is not in the Docker Engine", l.ID, ref).
				With(RemedyFor(ref))
		}
		pull := func(ctx context.Context, tell report) error { return b.pull(ctx, ref, tell) }
		if err := b.pulls.share(ctx, ref, l.Report, pull); err != nil {
			return "", err
		}
		has, err = b.client.ImageInspect(ctx, ref)
	}
	if err != nil {
		return "", b.explain(err, "look for image %s", ref)
	}
	return has.ID, fits(ref, has.Architecture, runtime.GOARCH)
}

// fits refuses an image whose programs are for other processors: the agent would come up in it, and then nothing else
// would.
func fits(ref, image, machine string) error {
	if image == "" || image == machine {
		return nil
	}
	return errs.New(errs.Missing, "image %s is for %s processors, and this machine has %s", ref, image, machine).
		With("choose an image that is built for " + machine)
}

// ownPrefix is that of images which this repository has recipes for. No registry has them.
const ownPrefix = "slipway/"

// pullable reports whether a registry may have the image.
func pullable(ref string) bool {
	named, err := reference.ParseNormalizedNamed(ref)
	return err == nil && !strings.HasPrefix(reference.FamiliarName(named), ownPrefix)
}

// RemedyFor says how an image comes into the engine.
func RemedyFor(ref string) string {
	if _, err := reference.ParseNormalizedNamed(ref); err != nil {
		return "name an image that `docker images` shows"
	}
	return "the administrator builds that image, or runs `docker pull " + ref + "`, or corrects images[].ref"
}
