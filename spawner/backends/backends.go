// Package backends finds the backends of a site by the names that records have, says which of them run workloads on
// other hosts, and asks all of them for what they hold.
//
// Promises: a backend that the configuration does not have any more is found all the same, and nothing is concluded
// about what it holds, nor about what one holds that does not answer. The package must not decide what becomes of a
// workload.
package backends

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

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

// listPatience is for how long a backend is asked for all that it holds: one that does not answer must not keep the
// others from being looked at.
const listPatience = 30 * time.Second

// Survey asks each backend once for all that it holds. One that does not answer is not in the result.
func (b Backends) Survey(ctx context.Context) map[string]map[spawner.ID]spawner.Existence {
	found := map[string]map[spawner.ID]spawner.Existence{}
	for name, one := range b.of {
		list, err := listOf(ctx, one)
		if err != nil {
			b.log.Warn("cannot list what a backend holds", "backend", name, "err", err)
			continue
		}
		found[name] = list
	}
	return found
}

func listOf(ctx context.Context, one spawner.Backend) (map[spawner.ID]spawner.Existence, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	return one.List(ctx)
}

// Patience is how long a backend may take to answer, beside the grace of the workload's own processes.
const Patience = time.Minute

// Reap ends what runs without a record, and removes what a job has left; what a session has left is kept, for it may be
// somebody's work. It reports whether there was anything to end or to remove.
func (b Backends) Reap(ctx context.Context, name string, id spawner.ID, grace time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, grace+Patience)
	defer cancel()
	one := b.Named(name)
	o, err := one.Observe(ctx, id)
	runs, remove := o.Existence.Alive(), id.OfJob() || o.Existence == spawner.Created
	if err == nil && runs {
		b.log.Warn("stopping what runs without a record", "backend", name, "id", id)
		err = one.Stop(ctx, id, grace)
	}
	if err == nil && remove {
		b.log.Warn("removing what was left without a record", "backend", name, "id", id)
		err = one.Remove(ctx, id)
	}
	if err != nil {
		b.log.Warn("cannot reap", "backend", name, "id", id, "err", err)
	}
	return runs || remove
}
