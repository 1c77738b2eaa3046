package environments

import (
	"cmp"
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"slipway/images"
	"slipway/images/records"
	"slipway/images/registry"
	"slipway/internal/errs"
	"slipway/internal/workloadtoken"
	"slipway/spawner"
)

// Registry has the repositories of the service's own registry, and says who may read what of them. The caller is the
// one to whom the password of Basic, or the token of Bearer, belongs:
//
//   - a token of a Hub is its user, who reads what she owns and what others share with her;
//   - a credential of a workload (see workloadtoken.Authority) reads the one environment of that workload, as long as it is active.
//
// An environment that has a name stands under its tags in the repository <user>/<name>; latest is the newest of them. A
// tag has what it stands for on each architecture. Every one that the caller may read also stands in the repository
// environment, under the 64 hexadecimal digits of its digest.
type Registry struct {
	library   *images.Library
	identify  func(ctx context.Context, token string) (spawner.Caller, error)
	viewer    func(hub string, user spawner.User) records.Viewer
	principal func(hub string, user spawner.User) string
	authority *workloadtoken.Authority
	fetching  func(id spawner.ID, run string, sent, size int64) // told of a workload's image on its way; nil: nobody
}

// NewRegistry makes the service's own registry. identify returns whose a user's token is.
func (f *Service) NewRegistry(
	authority *workloadtoken.Authority, identify func(ctx context.Context, token string) (spawner.Caller, error),
) *Registry {
	return &Registry{
		library: f.library, viewer: f.Viewer, principal: f.cfg.Principal, authority: authority, identify: identify,
		fetching: f.cfg.Engine().Fetching,
	}
}

func (s *Registry) Handler(log *slog.Logger) http.Handler {
	return registry.New(registry.Config{Open: s.open, Logger: log})
}

// everything is the repository of all that a caller may read. No user's repository has one word alone.
const everything = "environment"

// open is registry.Config.Open.
func (s *Registry) open(r *http.Request, repository string) (registry.Repository, error) {
	_, token, given := registry.Credential(r)
	if !given {
		return nil, errs.New(errs.Unauthorized, "nobody is known to be calling").
			With("give any name, and as the password a token of your Hub (its menu: Token)")
	}
	if workloadtoken.Is(token.Reveal()) {
		c, err := s.authority.Admit(r.Context(), token.Reveal(), workloadtoken.Image)
		if err != nil {
			return nil, err
		}
		return s.ofWorkload(c, repository)
	}
	c, err := s.identify(r.Context(), token.Reveal())
	if errs.Is(err, errs.Unauthorized) {
		return nil, errs.New(errs.Forbidden, "the token is not valid").
			With("get another one from your Hub (its menu: Token)")
	}
	if err != nil {
		return nil, err
	}
	return s.ofUser(c, repository)
}

// ofUser returns what a user sees of a repository.
func (s *Registry) ofUser(c spawner.Caller, repository string) (registry.Repository, error) {
	v := s.viewer(c.Hub, c.User)
	if repository == "" || repository == everything {
		return &repositoryView{library: s.library, list: func() ([]registryEntry, error) { return s.all(v) }}, nil
	}
	user, name, ok := splitRepository(repository)
	if !ok {
		return nil, errs.New(errs.NotFound, "there is no repository %.200q of yours", repository).
			With("repositories are called <user>/<name>, and " + everything)
	}
	return &repositoryView{library: s.library, list: func() ([]registryEntry, error) {
		list, err := s.named(v, s.principal(c.Hub, spawner.User(user)), name)
		if err == nil && len(list) == 0 { // also where there is one that the caller may not read
			err = noSuch(repository)
		}
		return list, err
	}}, nil
}

// ofWorkload returns the one environment of a workload.
func (s *Registry) ofWorkload(c workloadtoken.Claims, repository string) (registry.Repository, error) {
	if repository != "" && repository != everything {
		return nil, errs.New(errs.NotFound, "the credential of a job opens the repository %s alone", everything)
	}
	one := &repositoryView{
		library: s.library, list: func() ([]registryEntry, error) { return []registryEntry{byDigest(c.Digest)}, nil },
	}
	if c.Run == "" || s.fetching == nil {
		return one, nil
	}
	return watched{
		Repository: one, tell: func(sent, size int64) { s.fetching(spawner.ID(c.Workload), c.Run, sent, size) },
	}, nil
}

// all returns every environment that a viewer may read, each once.
func (s *Registry) all(v records.Viewer) ([]registryEntry, error) {
	own, err := s.library.Records.List(v.Owner)
	if err != nil {
		return nil, err
	}
	others, err := s.library.Records.Shared(v)
	if err != nil {
		return nil, err
	}
	var out []registryEntry
	seen := map[string]bool{}
	for _, e := range append(own, others...) {
		if !seen[e.Digest] {
			seen[e.Digest] = true
			out = append(out, byDigest(e.Digest))
		}
	}
	return out, nil
}

// byDigest is an environment under its digest: with a colon that would be no tag.
func byDigest(digest string) registryEntry {
	return registryEntry{digest: digest, tags: []string{strings.TrimPrefix(digest, "sha256:")}}
}

const newest = "latest"

// named returns what a viewer may read of an owner's environments of one name, with their tags. What a tag stands for
// is the same for everybody.
func (s *Registry) named(v records.Viewer, owner, name string) ([]registryEntry, error) {
	list, err := s.library.Records.List(owner)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e records.Environment) bool { return e.Name != name })
	own := slices.ContainsFunc(list, func(e records.Environment) bool { return e.Tag == newest })
	var out []registryEntry
	for _, e := range list {
		item := registryEntry{digest: e.Digest, architecture: e.Architecture()}
		if e.Tag != "" && !e.Moved {
			item.tags = []string{e.Tag}
		}
		if e.Newest && !own {
			item.tags = append(item.tags, newest)
		}
		if v.Sees(e) {
			out = append(out, item)
		}
	}
	return hereFirst(out), nil
}

// hereFirst puts what runs on this host's architecture first: it is what a tag alone means.
func hereFirst(list []registryEntry) []registryEntry {
	slices.SortStableFunc(list, func(a, b registryEntry) int {
		return cmp.Compare(bit(a.architecture != runtime.GOARCH), bit(b.architecture != runtime.GOARCH))
	})
	return list
}

func bit(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Names in repositories: OCI allows lower-case words joined by single marks. What is not so, or begins like what is
// written here, is written x-- and its bytes in hexadecimal digits, so that different names stay different.
var plainWord = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$`)

const hexWord = "x--"

// repositoryWord writes a user's or an environment's name as a part of a repository's.
func repositoryWord(name string) string {
	if plainWord.MatchString(name) && !strings.HasPrefix(name, hexWord) {
		return name
	}
	return hexWord + hex.EncodeToString([]byte(name))
}

// nameOfWord is the other way; ok is false for what repositoryWord does not write.
func nameOfWord(word string) (name string, ok bool) {
	name = word
	if digits, encoded := strings.CutPrefix(word, hexWord); encoded {
		b, err := hex.DecodeString(digits)
		if err != nil {
			return "", false
		}
		name = string(b)
	}
	return name, name != "" && repositoryWord(name) == word
}

func splitRepository(repository string) (user, name string, ok bool) {
	first, second, two := strings.Cut(repository, "/")
	user, userOK := nameOfWord(first)
	name, nameOK := nameOfWord(second)
	return user, name, two && userOK && nameOK
}
