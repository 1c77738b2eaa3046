package cli

import (
	"context"

	"slipway/images"
	"slipway/spawner"
)

// capture gives a session's file tree, as the library of environments wants it.
func (s *service) capture(ctx context.Context, id spawner.ID) (images.Source, error) {
	c, err := s.docker.Capture(ctx, id)
	if err != nil {
		return images.Source{}, err
	}
	return images.Source{
		Layers: c.Layers, Upper: c.Upper, Mounts: c.Mounts, Pause: c.Pause, Resume: c.Resume,
		Base: images.Base{Reference: c.Base, Digest: c.ImageID},
		Config: images.ImageConfig{
			Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, Architecture: c.Architecture, Labels: c.Labels,
		},
	}, nil
}
