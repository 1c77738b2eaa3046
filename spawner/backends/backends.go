// Package backends finds the backends of a site by the names that records have, and says which of them run workloads on
// other hosts.
//
// Promises: a backend that the configuration does not have any more is found all the same, and nothing is concluded
// about what it holds. The package must not decide what becomes of a workload.
package backends

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Backends are those of a site. They do not change.
type Backends struct {
	of       map[string]spawner.Backend
	sessions string
	log      *slog.Logger
}

// New returns the backends of a list. sessions names that of sessions on this host; empty: there is none.
func New(list []spawner.Backend, sessions string, log *slog.Logger) (Backends, error) {
	b := Backends{of: map[string]spawner.Backend{}, sessions: sessions, log: log}
	for _, one := range list {
		b.of[one.Name()] = one
	}
	if sessions != "" && b.of[sessions] == nil {
		return b, fmt.Errorf("no backend is called %q", sessions)
	}
	return b, nil
}

// All returns all, by name and in no order.
func (b Backends) All() iter.Seq2[string, spawner.Backend] { return maps.All(b.of) }

// Named returns the backend by the name that a record has. One that the configuration has no more fails in all it is
// asked.
func (b Backends) Named(name string) spawner.Backend {
	if one := b.of[name]; one != nil {
		return one
	}
	return missing(name)
}

// Configured returns a backend of the configuration; nil: it has none of this name.
func (b Backends) Configured(name string) spawner.Backend { return b.of[name] }

// SessionBackend is the backend of sessions on this host.
func (b Backends) SessionBackend() string { return b.sessions }

// JobBackends returns the backends that jobs may name.
func (b Backends) JobBackends() []string {
	var names []string
	for name := range b.of {
		if name != b.sessions || b.IsRemote(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// IsRemote reports whether a backend runs its workloads on other hosts.
func (b Backends) IsRemote(name string) bool {
	_, ok := b.of[name].(spawner.Remote)
	return ok
}

// Remotes says of each backend whether it runs its workloads on other hosts.
func (b Backends) Remotes() map[string]bool {
	is := map[string]bool{}
	for name := range b.of {
		is[name] = b.IsRemote(name)
	}
	return is
}

// HasRemote reports whether workloads run on other hosts.
func (b Backends) HasRemote() bool {
	for name := range b.of {
		if b.IsRemote(name) {
			return true
		}
	}
	return false
}

// At names a backend to people.
func (b Backends) At(name string) string {
	if r, ok := b.of[name].(spawner.Remote); ok {
		return r.Title()
	}
	return name
}

// Judge has a Remote refuse what could never start there. What it cannot tell now waits, and is told then.
func (b Backends) Judge(ctx context.Context, w spawner.Workload) error {
	r, ok := b.of[w.Backend].(spawner.Remote)
	if !ok {
		return nil
	}
	err := r.Judge(ctx, w)
	if errs.Is(err, errs.Unavailable) {
		b.log.Warn("a backend cannot judge a workload now", "backend", w.Backend, "err", err)
		return nil
	}
	return err
}
