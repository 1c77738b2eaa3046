package records

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"slipway/internal/errs"
)

// A name holds an entry for each architecture: a freeze makes that of its own, a pull brings those of others. A
// reference means the entry of this host's architecture, or the newest where there is none; with @ and an architecture
// behind it another one, as in ana:v1@arm64.

// splitArchitecture takes the architecture off a reference. No name, tag or digest has an @.
func splitArchitecture(ref string) (rest, architecture string) {
	rest, architecture, _ = strings.Cut(ref, "@")
	return rest, architecture
}

// Architecture says where an environment runs, as Go and OCI write it.
func (e Environment) Architecture() string {
	if e.Manifest.Architecture == "" {
		return runtime.GOARCH
	}
	return e.Manifest.Architecture
}

// RunsHere refuses an environment for other machines than this one.
func (e Environment) RunsHere() error {
	if e.Architecture() == runtime.GOARCH {
		return nil
	}
	return errs.New(
		errs.Invalid, "the environment %s is for %s machines, and this one is %s", e.Digest, e.Architecture(),
		runtime.GOARCH,
	).With("freeze it in a session here, or pull the one for " + runtime.GOARCH + " under the same name")
}

// entries finds what a reference means among an owner's environments: one of each architecture, this host's before all
// others.
func entries(all []Environment, ref string) []Environment {
	var out []Environment
	for _, e := range LeadingFirst(all) {
		if e.means(ref) && len(architectures(out, e.Architecture())) == 0 {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b Environment) int { return foreign(a) - foreign(b) })
	return out
}

func foreign(e Environment) int {
	if e.Architecture() == runtime.GOARCH {
		return 0
	}
	return 1
}

// architectures returns those of a list's environments that are of an architecture; all for none.
func architectures(list []Environment, architecture string) []string {
	var out []string
	for _, e := range list {
		if architecture == "" || e.Architecture() == architecture {
			out = append(out, e.Architecture())
		}
	}
	return out
}

// lacks says that a name has no entry for an architecture; nil when it has no entry at all, or none was asked for.
func lacks(all []Environment, ref string) error {
	ref, want := splitArchitecture(ref)
	there := architectures(entries(all, ref), "")
	if want == "" || len(there) == 0 {
		return nil
	}
	return errs.New(errs.NotFound, "%.80q has no environment for %.40q", ref, want).
		With(fmt.Sprintf("there are those for %s", strings.Join(there, ", ")))
}

// Entries returns what a reference means to a viewer, one environment for each architecture: this host's first. owner
// is as in Find.
func (s *Store) Entries(v Viewer, owner, ref string) ([]Environment, error) {
	e, err := s.Find(v, owner, ref)
	if err != nil {
		return nil, err
	}
	all, err := s.visible(v, e.Owner)
	if found := entries(all, ref); len(found) > 0 {
		return found, err
	}
	return []Environment{e}, err // by the beginning of its digest
}
