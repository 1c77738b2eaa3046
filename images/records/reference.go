package records

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/internal/errs"
)

// What a name means follows from all that its owner has, and from nothing else: who asks and what is shared with whom
// only decide whether he gets it. name:tag is the environment that was given them last, name: the one that was given
// the name without a tag, name alone the newest of all these. An environment whose name and tag were given to another
// one since is reached by its digest, never by that name.

// List returns the owner's environments, the newest first. A record that cannot be read is logged and left out.
func (s *Store) List(owner string) ([]Environment, error) {
	files, err := os.ReadDir(s.dir.Path("records", libdir.Escape(owner)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	var out []Environment
	for _, file := range files {
		hexPart, ok := strings.CutSuffix(file.Name(), ".json")
		if !ok || strings.HasPrefix(hexPart, libdir.TempPrefix) {
			continue
		}
		r, err := s.Load(owner, hexPart)
		if err != nil {
			s.log.Error("an environment's record cannot be read", "file", file.Name(), "error", err)
			continue
		}
		out = append(out, r.environments()...)
	}
	inOrder(out)
	return out, nil
}

// visible returns what a viewer may use of an owner's environments, the newest first.
func (s *Store) visible(v Viewer, owner string) ([]Environment, error) {
	all, err := s.List(owner)
	return slices.DeleteFunc(all, func(e Environment) bool { return !v.Sees(e) }), err
}

// naming is what at most one environment is called.
type naming struct{ owner, name, tag, architecture string }

func (e Environment) naming() naming { return naming{e.Owner, e.Name, e.Tag, e.Architecture()} }

// inOrder sorts all environments of some owners by when they were given their names, the newest first, and notes what
// the names lead to.
func inOrder(list []Environment) {
	slices.SortStableFunc(list, func(a, b Environment) int {
		return cmp.Or(b.Named.Compare(a.Named), strings.Compare(a.Digest, b.Digest))
	})
	taken, newest := map[naming]bool{}, map[naming]bool{}
	for i, e := range list {
		tagged := e.naming()
		alone := tagged
		alone.tag = ""
		list[i].Moved = e.Name != "" && taken[tagged]
		list[i].Newest = e.Name != "" && !newest[alone]
		taken[tagged], newest[alone] = true, true
	}
}

// Names returns the names that lead to an environment of an owner's.
func (s *Store) Names(owner, digest string) ([]string, error) {
	all, err := s.List(owner)
	out := []string{}
	for _, e := range all {
		if e.Digest == digest && e.Name != "" && !e.Moved {
			out = append(out, strings.TrimSuffix(e.Name+":"+e.Tag, ":"))
		}
	}
	slices.Sort(out)
	return out, err
}

const minPrefix = 6

// Get finds one of the owner's environments by name:tag, name (the newest of it), digest, or a prefix of at least six
// hexadecimal digits. What others own is not found.
func (s *Store) Get(owner, ref string) (Environment, error) {
	all, err := s.List(owner)
	if err != nil {
		return Environment{}, err
	}
	return choose(all, ref)
}

// choose finds what a reference means among those of an owner's environments that somebody may use.
func choose(all []Environment, ref string) (Environment, error) {
	if found := entries(all, ref); len(found) > 0 {
		return found[0], nil
	}
	if err := cmp.Or(lacks(all, ref), movedAway(all, ref)); err != nil {
		return Environment{}, err
	}
	return byPrefix(all, ref)
}

// called says whether an environment has, or had, the name of a reference, and its tag where the reference has one.
func (e Environment) called(ref string) bool {
	rest, architecture := splitArchitecture(ref)
	name, tag, tagged := strings.Cut(rest, ":")
	return name != "" && e.Name == name && (!tagged || e.Tag == tag) && (architecture == "" ||
		e.Architecture() == architecture)
}

// means says whether a reference leads to an environment.
func (e Environment) means(ref string) bool {
	rest, architecture := splitArchitecture(ref)
	if e.Digest == rest {
		return architecture == "" || e.Architecture() == architecture
	}
	return e.called(ref) && (!e.Moved && strings.Contains(rest, ":") || e.Newest && !strings.Contains(rest, ":"))
}

// maxNamed is how many environments an error names.
const maxNamed = 3

// movedAway says of a name what leads to the environments that somebody may use who may not use the one that it leads
// to; nil: there are none.
func movedAway(all []Environment, ref string) error {
	var others []string
	for _, e := range all {
		if !e.called(ref) {
			continue
		}
		other := strings.TrimPrefix(e.Digest, blob.Prefix)[:12]
		if !e.Moved {
			other = e.Name + ":" + e.Tag
		}
		others = append(others, other)
	}
	if len(others) == 0 {
		return nil
	}
	return errs.New(errs.NotFound, "%.80q leads to an environment that is not shared with you", ref).
		With("of that owner's you may use " + strings.Join(others[:min(maxNamed, len(others))], ", "))
}

// byPrefix finds an environment by the beginning of its digest.
func byPrefix(all []Environment, ref string) (Environment, error) {
	prefix := strings.TrimPrefix(ref, blob.Prefix)
	found := Once(slices.DeleteFunc(LeadingFirst(all), func(e Environment) bool {
		return len(prefix) < minPrefix || !strings.HasPrefix(e.Digest, blob.Prefix+prefix)
	}))
	switch len(found) {
	case 0:
		return Environment{}, errs.New(errs.NotFound, "there is no environment %.80q that you may use", ref).
			With("name it by its name, name:tag, digest or the first six or more digits of it")
	case 1:
		return found[0], nil
	default:
		return Environment{}, errs.Bad(
			"environment", ref, fmt.Sprintf("%d environments begin so; give more digits", len(found)),
		)
	}
}

// LeadingFirst returns environments under names that lead to them before those under names that do not any more.
func LeadingFirst(all []Environment) []Environment {
	moved := func(e Environment) int {
		if e.Moved {
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(all), func(a, b Environment) int { return moved(a) - moved(b) })
}
