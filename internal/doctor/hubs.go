package doctor

import (
	"context"

	"slipway/hubapi/hub"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/service/clients"
)

// hubChecks look whether a hub's API is where the configuration has it, and whether the service may ask and tell the hub
// what it needs to. That its files can be read, the configuration's own check has seen.
func hubChecks(h config.Hub) []check {
	ask := func(question func(*hub.Client) error) error {
		c, err := clients.HubConfig(h)
		if err != nil {
			return err
		}
		return question(hub.New(c))
	}
	checks := []check{{"hub " + h.Name, true, func(ctx context.Context) error {
		return ask(func(c *hub.Client) error {
			if _, err := c.Version(ctx); err != nil {
				return errs.New(errs.Unavailable, "%s does not answer as a Hub: %w", h.APIURL, err).
					With("start JupyterHub, or correct hubs[].api_url: it ends in /hub/api")
			}
			return nil
		})
	}}}
	if h.TokenFile != "" {
		checks = append(checks, check{"service token of hub " + h.Name, true, func(ctx context.Context) error {
			return ask(func(c *hub.Client) error {
				return c.Holds(
					ctx, "compare servers and tell of activity", "list:users", "read:servers", "users:activity",
				)
			})
		}})
	}
	return checks
}
