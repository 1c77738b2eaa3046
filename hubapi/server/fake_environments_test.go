package server

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// theDigest is that of the one environment there is.
const theDigest = "sha256:aabbcc"

// fakeEnvironments has one environment of one user, under its digest and one name. It notes what changes something.
type fakeEnvironments struct {
	owner spawner.User

	mu   sync.Mutex
	done []string
}

func (f *fakeEnvironments) did(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, fmt.Sprintf(format, args...))
}

func (f *fakeEnvironments) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

func (f *fakeEnvironments) List(_ context.Context, c spawner.Caller, shared bool) ([]hubapi.Environment, error) {
	if c.User != f.owner {
		return nil, nil
	}
	mine := []hubapi.Environment{{Digest: theDigest, Name: "mine", Mine: true}}
	if shared {
		mine = append(mine, hubapi.Environment{Digest: "sha256:ddeeff", Name: "theirs", Owner: "carol"})
	}
	return mine, nil
}

func (f *fakeEnvironments) Get(_ context.Context, c spawner.Caller, ref string) (hubapi.Environment, error) {
	if c.User == f.owner && ref == "carol/theirs:v1" {
		return hubapi.Environment{Digest: "sha256:ddeeff", Name: "theirs", Tag: "v1", Owner: "carol"}, nil
	}
	if c.User != f.owner || (ref != theDigest && ref != "mine:v 1") {
		return hubapi.Environment{}, errs.New(errs.NotFound, "there is no environment %q of yours", ref)
	}
	return hubapi.Environment{Digest: theDigest, Name: "mine", Tag: "v 1", Mine: true}, nil
}

// For is of the user that a Spawner asks for.
func (f *fakeEnvironments) For(ctx context.Context, c spawner.Caller, user spawner.User) ([]hubapi.Environment, error) {
	if !c.Spawner {
		return nil, errs.New(errs.Forbidden, "only a spawner")
	}
	all, err := f.List(ctx, spawner.Caller{Hub: c.Hub, User: user}, true)
	for i := range all {
		all[i].Base = "slipway/notebook:1"
	}
	return all, err
}

func (f *fakeEnvironments) Of(ctx context.Context, c spawner.Caller, user spawner.User, ref string) (hubapi.Environment, error) {
	if !c.Spawner {
		return hubapi.Environment{}, errs.New(errs.Forbidden, "only a spawner")
	}
	e, err := f.Get(ctx, spawner.Caller{Hub: c.Hub, User: user}, ref)
	e.Base = "slipway/notebook:1"
	return e, err
}

func (f *fakeEnvironments) Details(ctx context.Context, c spawner.Caller, ref string) (hubapi.EnvironmentDetails, error) {
	e, err := f.Get(ctx, c, ref)
	return hubapi.EnvironmentDetails{Environment: e, Architecture: "amd64", Inventory: []byte(`{"packages":[]}`)}, err
}

func (f *fakeEnvironments) History(ctx context.Context, c spawner.Caller, ref string) ([]hubapi.Environment, error) {
	e, err := f.Get(ctx, c, ref)
	return []hubapi.Environment{e}, err
}

func (f *fakeEnvironments) Diff(ctx context.Context, c spawner.Caller, old, now string) (hubapi.EnvironmentDiff, error) {
	a, err := f.Get(ctx, c, old)
	if err != nil {
		return hubapi.EnvironmentDiff{}, err
	}
	b, err := f.Get(ctx, c, now)
	return hubapi.EnvironmentDiff{Old: a, New: b, Lines: []string{"no difference"}, Full: []byte(`{}`)}, err
}

func (f *fakeEnvironments) Verify(ctx context.Context, c spawner.Caller, ref string) (hubapi.EnvironmentCheck, error) {
	e, err := f.Get(ctx, c, ref)
	return hubapi.EnvironmentCheck{Environment: e, Bytes: 7}, err
}

func (f *fakeEnvironments) SBOM(ctx context.Context, c spawner.Caller, ref string) ([]byte, error) {
	if _, err := f.Get(ctx, c, ref); err != nil {
		return nil, err
	}
	return []byte(`{"spdxVersion":"SPDX-2.3"}`), nil
}

func (f *fakeEnvironments) Tag(ctx context.Context, c spawner.Caller, ref string, r hubapi.TagRequest) (hubapi.Environment, error) {
	e, err := f.Get(ctx, c, ref)
	if err != nil {
		return e, err
	}
	if r.Name == "Bad" {
		return e, errs.Bad("name", r.Name, "another")
	}
	e.Name, e.Tag = r.Name, r.Tag
	f.did("tag %s %s:%s", ref, r.Name, r.Tag)
	return e, nil
}

func (f *fakeEnvironments) Share(ctx context.Context, c spawner.Caller, ref string, s hubapi.Share) (hubapi.Environment, error) {
	e, err := f.Get(ctx, c, ref)
	if err != nil {
		return e, err
	}
	e.Share = s
	f.did("share %s with %s%s", ref, s.With, s.Group)
	return e, nil
}

func (f *fakeEnvironments) Remove(ctx context.Context, c spawner.Caller, ref string) (hubapi.Removed, error) {
	e, err := f.Get(ctx, c, ref)
	if err != nil {
		return hubapi.Removed{}, err
	}
	f.did("remove %s", ref)
	return hubapi.Removed{Digest: e.Digest, Names: []string{"other:v2"}}, nil
}

func (f *fakeEnvironments) Usage(_ context.Context, c spawner.Caller) (hubapi.EnvironmentUsage, error) {
	if c.User != f.owner {
		return hubapi.EnvironmentUsage{}, nil
	}
	return hubapi.EnvironmentUsage{Environments: 1, Own: 5, Shared: 7, Quota: 100}, nil
}

func (f *fakeEnvironments) Groups(_ context.Context, c spawner.Caller) ([]string, error) {
	return []string{"higgs"}, nil
}

func (f *fakeEnvironments) Sweep(_ context.Context, c spawner.Caller, dry bool) (hubapi.Swept, error) {
	if !c.Admin || c.Workload != "" {
		return hubapi.Swept{}, errs.New(errs.Forbidden, "only administrators sweep environments")
	}
	if !dry {
		f.did("sweep")
	}
	return hubapi.Swept{Environments: []string{theDigest}, Bases: []string{}, Bytes: 12, Dry: dry}, nil
}
