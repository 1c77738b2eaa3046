package service

import (
	"context"
	"io"

	"slipway/images"
	"slipway/images/apptainer"
	"slipway/images/manifest"
	"slipway/internal/agent/control"
	"slipway/internal/environments"
	"slipway/spawner"
	"slipway/spawner/docker"
	"slipway/spawner/engine"
)

// openLibrary opens the environments and the keys that sign them. The keys lie outside the records, in a directory of
// their own.
func (s *service) openLibrary(ctx context.Context) error {
	keys, err := environments.OpenKeys(s.cfg, s.log)
	if err != nil {
		return err
	}
	s.environments, err = environments.Open(ctx, environments.Config{
		Site: s.cfg, Keys: keys, Account: s.account, Principal: s.principal, GroupsOf: s.groupsOf,
		QuotasOf: s.quotasOf, Try: s.try,
		Changes: func(id spawner.ID) func(context.Context, control.ChangesRequest) (io.ReadCloser, error) {
			return agents{s.links}.client(id).Changes
		},
		Trees:  func() environments.Trees { return trees{s.docker} },
		Engine: func() *engine.Manager { return s.engine }, Logger: s.log,
	})
	return err
}

// trees are those of the Docker Engine's images and sessions.
type trees struct{ *docker.Backend }

// Layers returns an image of the engine.
func (t trees) Layers(ctx context.Context, ref string, tell func(message string, percent int)) (images.Source, error) {
	image, err := t.Backend.Layers(ctx, ref, tell)
	return sourceOf(image, ref), err
}

// Capture looks where a session's file tree lies.
func (t trees) Capture(ctx context.Context, id spawner.ID) (images.Source, environments.Fetch, error) {
	c, err := t.Backend.Capture(ctx, id)
	if err != nil {
		return images.Source{}, nil, err
	}
	source := sourceOf(c.Image, c.Base)
	source.Upper, source.Mounts, source.Lost, source.Pause, source.Resume = c.Upper, c.Mounts, c.Lost, c.Pause, c.Resume
	return source, c.Fetch, nil
}

func sourceOf(i docker.Image, reference string) images.Source {
	return images.Source{
		Layers: i.Layers, Base: manifest.Base{Reference: reference, Digest: i.ImageID},
		Config: apptainer.ImageConfig{
			Env: i.Env, Entrypoint: i.Entrypoint, Cmd: i.Cmd, WorkingDir: i.WorkingDir,
			Architecture: i.Architecture, Labels: i.Labels,
		},
	}
}
