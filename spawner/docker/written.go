package docker

import (
	"context"

	"slipway/internal/errs"
	"slipway/internal/quota"
	"slipway/spawner"
)

// Written returns how many bytes of the engine's disk a session's changes take. It reads their whole tree, and no file.
// An error of kind Missing says that the engine's directories cannot be read.
func (b *Backend) Written(ctx context.Context, id spawner.ID) (int64, error) {
	c, err := b.Capture(ctx, id)
	if err != nil {
		return 0, err
	}
	if c.Upper == "" {
		return 0, errs.New(errs.Missing, "see how much %s has written: %s", id, c.Why)
	}
	return quota.Measure(ctx, c.Upper)
}
