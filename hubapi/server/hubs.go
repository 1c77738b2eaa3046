package server

import (
	"context"
	"net"
	"slices"
	"strings"

	"slipway/spawner"
)

type ownHubKey struct{}

// hubsOf returns the hubs that a request may be of: the one whose own listener it came by, else all that share the common one.
// Hubs of one listener differ in their base paths, so that a path is one hub's.
func (s *Server) hubsOf(ctx context.Context) []Hub {
	if own, ok := ctx.Value(ownHubKey{}).(string); ok {
		return []Hub{s.hub(own)}
	}
	return s.common
}

// sharing returns the hubs that have no listener of their own.
func sharing(hubs []Hub, own map[string]net.Listener) []Hub {
	return slices.DeleteFunc(slices.Clone(hubs), func(h Hub) bool { return own[h.Name] != nil })
}

// hub finds a hub by its name; the zero Hub when it is not configured any more.
func (s *Server) hub(name string) Hub {
	i := slices.IndexFunc(s.cfg.Hubs, func(h Hub) bool { return h.Name == name })
	if i < 0 {
		return Hub{}
	}
	return s.cfg.Hubs[i]
}

// base returns the path below which the Hub and all its servers lie, with slashes at both ends: that of its API tells it.
func (h Hub) base() string {
	return strings.TrimSuffix(strings.TrimRight(h.APIURL.EscapedPath(), "/"), "hub/api")
}

// route finds the session to which a path belongs.
func (s *Server) route(ctx context.Context, path string) (spawner.ID, bool) {
	for _, h := range s.hubsOf(ctx) {
		if id, ok := s.cfg.Engine.Route(h.Name, path); ok {
			return id, true
		}
	}
	return "", false
}
