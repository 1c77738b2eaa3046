package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/pack"
	"slipway/images/tree"
	"slipway/internal/agent/control"
	"slipway/spawner"
)

// afar is a session that runs where there is no engine, such as under Apptainer on a worker node. Only its agent reads its changes.
type afar struct {
	image       string // the reference of the image that it, or its environment, stands on
	environment string // the digest of the one that it was started from; empty: it was started from the image
	// owner is who the session's user is in environments; nil: it ran as root, and what is in it is of who it was there.
	owner  *pack.Owner
	mounts []string // paths inside at which something else was mounted
	// changes asks its agent.
	changes func(ctx context.Context, r control.ChangesRequest) (io.ReadCloser, error)
}

// captureAfar gives the file tree of such a session, as the library of environments wants it: over the image, also when the session was
// started from an environment, whose changes come first. done removes what was copied.
func (s *service) captureAfar(ctx context.Context, a afar, tell func(hubapi.Progress)) (source images.Source, done func(), err error) {
	image := a.image
	var fill func(context.Context, string) error
	if a.environment != "" {
		from, err := s.library.Thaw(ctx, a.environment)
		if err != nil {
			return images.Source{}, nil, err
		}
		image, fill = from.Image, from.Fill
	}
	has, err := s.docker.Layers(ctx, image, func(message string, percent int) {
		tell(hubapi.Progress{Stage: "fetching", Message: message, Percent: float64(percent)})
	})
	if err != nil {
		return images.Source{}, nil, fmt.Errorf("look for the image that the session stands on: %w", err)
	}
	source = sourceOf(has, a.image)
	source.Mounts = a.mounts
	strip, err := tree.NewStrip(s.cfg.Environments.Strip)
	if err != nil {
		return images.Source{}, nil, err
	}
	return s.copied(ctx, source, a.fetch(strip.Rules(), source.Layers, fill), tell)
}

// fetch unpacks what the session's agent streams. What never travels does not even leave the session's host.
func (a afar) fetch(strip, layers []string, fill func(context.Context, string) error) fetch {
	return func(ctx context.Context, dir string, tell func(string, int)) (upper string, _ []string, err error) {
		stream, err := a.changes(ctx, control.ChangesRequest{Strip: strip})
		if err != nil {
			return "", nil, err
		}
		upper, err = pack.Unpack(ctx, stream, pack.Target{Dir: dir, Fill: fill, Owner: a.owner, Layers: layers, Progress: arriving(tell)})
		return upper, layers, errors.Join(err, stream.Close())
	}
}

// arriving tells of a stream, about every 8 MiB.
func arriving(tell func(string, int)) func(pack.Progress) {
	next := int64(0)
	return func(p pack.Progress) {
		if p.Bytes < next {
			return
		}
		next = p.Bytes + 8<<20
		percent := -1
		if p.AllBytes > 0 {
			percent = int(min(p.Bytes*100/p.AllBytes, 100))
		}
		tell(fmt.Sprintf("The session's changes are coming (%d of %d MB)", p.Bytes/1e6, p.AllBytes/1e6), percent)
	}
}

// changesOf asks the agent of a workload.
func (a agents) changesOf(id spawner.ID) func(context.Context, control.ChangesRequest) (io.ReadCloser, error) {
	return a.client(id).Changes
}
