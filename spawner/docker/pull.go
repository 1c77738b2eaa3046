package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/client"

	"slipway/internal/errs"
	"slipway/spawner/docker/progress"
)

// pull fetches an image from its registry, without a login: what a registry gives only to some is for the administrator
// to load, for then everybody who may use this service has it. The engine ends the pull when ctx ends or this service
// is killed. Engines drop what had come so far (20.10 does), so the next pull may begin from nothing.
func (b *Backend) pull(ctx context.Context, ref string, tell report) error {
	what := "pull image " + ref
	stream, err := b.client.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return b.untold(err, what)
	}
	image := progress.NewPull(ref, tell)
	for m, err := range stream.JSONMessages(ctx) {
		if err == nil && m.Error != nil {
			err = m.Error
		}
		if err != nil {
			return b.untold(err, what)
		}
		image.Add(m)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// untold explains why a pull failed.
func (b *Backend) untold(err error, what string) error {
	if _, known := means(err.Error(), ofPulls()); !known && gone(err) {
		return errs.New(errs.Missing, "%s: the registry does not have it: %w", what, err).
			With("check the name and the tag")
	}
	return b.tell(err, ofPulls(), what)
}
