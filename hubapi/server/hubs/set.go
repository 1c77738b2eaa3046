package hubs

import (
	"context"
	"net"
	"slices"
)

// Set is the hubs of a service.
type Set struct {
	all    []Hub
	common []Hub // those that share the common listener
}

// NewSet returns the set of all hubs, which share one listener.
func NewSet(all []Hub) *Set { return &Set{all: all, common: all} }

// Apart says which hubs have listeners of their own. It is called before the first request.
func (s *Set) Apart(own map[string]net.Listener) {
	s.common = slices.DeleteFunc(slices.Clone(s.all), func(h Hub) bool { return own[h.Name] != nil })
}

type ownHubKey struct{}

// ByListenerOf returns the context of requests that come by a hub's own listener.
func ByListenerOf(ctx context.Context, hub string) context.Context {
	return context.WithValue(ctx, ownHubKey{}, hub)
}

// Of returns the hubs that a request may be of: the one whose own listener it came by, else all that share the common
// one. Hubs of one listener differ in their base paths, so that a path is one hub's.
func (s *Set) Of(ctx context.Context) []Hub {
	if own, ok := ctx.Value(ownHubKey{}).(string); ok {
		return []Hub{s.Named(own)}
	}
	return s.common
}

// Named finds a hub by its name; the zero Hub when it is not configured any more.
func (s *Set) Named(name string) Hub {
	i := slices.IndexFunc(s.all, func(h Hub) bool { return h.Name == name })
	if i < 0 {
		return Hub{}
	}
	return s.all[i]
}

// All returns all hubs.
func (s *Set) All() []Hub { return s.all }
