package environments

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/images/statements"
	"slipway/images/tree"
	"slipway/internal/errs"
	"slipway/internal/identity"
	"slipway/internal/metrics"
	"slipway/spawner"
)

// callersViewer says as whom a caller looks for environments. A job's agent speaks for the job alone, and a Spawner for
// no user.
func (f *Service) callersViewer(c spawner.Caller) (records.Viewer, error) {
	if c.User == "" || c.Spawner || strings.HasPrefix(string(c.Workload), "j-") {
		return records.Viewer{}, errs.New(
			errs.Forbidden, "environments are their owners', by a token or from a session",
		)
	}
	return f.Viewer(c.Hub, c.User), nil
}

// look finds what a caller means by a reference.
func (f *Service) look(c spawner.Caller, ref string) (records.Environment, records.Viewer, error) {
	v, err := f.callersViewer(c)
	if err != nil {
		return records.Environment{}, v, err
	}
	e, err := f.LookAs(v, c.Hub, ref)
	return e, v, err
}

// LookAs finds what a viewer of a hub means by a reference. It is the one way by which sessions, jobs and people get at
// environments.
func (f *Service) LookAs(v records.Viewer, hub, ref string) (records.Environment, error) {
	owner, name := f.split(hub, ref)
	e, err := f.library.Records.Find(v, owner, name)
	return e, withOwner(err, owner, ref)
}

// withOwner names what was not found as it was asked for: the library knows no users.
func withOwner(err error, owner, ref string) error {
	if err == nil || owner == "" {
		return err
	}
	return fmt.Errorf("%.160s: %w", ref, err)
}

// own returns what a caller's reference means among her own environments: what others share with her is not hers to
// change.
func (f *Service) own(c spawner.Caller, ref string) (v records.Viewer, name string, err error) {
	e, v, err := f.look(c, ref)
	if err != nil {
		return v, "", err
	}
	if user := identity.UserOf(e.Owner); e.Owner != v.Owner {
		return v, "", errs.New(errs.Forbidden, "%.160s is %s's environment", ref, user).
			With(fmt.Sprintf(
				"only %s names, shares and removes it, and has its history; you may run, show and compare it", user,
			))
	}
	_, name = f.split(c.Hub, ref)
	return v, name, nil
}

// entries finds what a caller means by a reference: an environment for each architecture, this host's first.
func (f *Service) entries(c spawner.Caller, ref string) ([]records.Environment, error) {
	v, err := f.callersViewer(c)
	if err != nil {
		return nil, err
	}
	owner, name := f.split(c.Hub, ref)
	found, err := f.library.Records.Entries(v, owner, name)
	return found, withOwner(err, owner, ref)
}

// split takes owner/name:tag apart; the owner is a principal, empty for the caller's own.
func (f *Service) split(hub, ref string) (owner, name string) {
	if other, rest, named := strings.Cut(ref, "/"); named {
		return f.cfg.Principal(hub, spawner.User(other)), rest
	}
	return "", ref
}

// List lists the caller's environments, and with shared those that others share with her.
func (f *Service) List(_ context.Context, c spawner.Caller, shared bool) ([]hubapi.Environment, error) {
	v, err := f.callersViewer(c)
	if err != nil {
		return nil, err
	}
	all, err := f.library.Records.List(v.Owner)
	if err != nil || !shared {
		return f.wireAll(all, v), err
	}
	others, err := f.library.Records.Shared(v)
	return f.wireAll(append(all, others...), v), err
}

// For lists what a session of a user may start from; a hub's Spawner asks.
func (f *Service) For(ctx context.Context, c spawner.Caller, user spawner.User) ([]hubapi.Environment, error) {
	u, err := starter(c, user)
	if err != nil {
		return nil, err
	}
	return f.List(ctx, u, true)
}

// Of finds one environment that a session of a user may start from; a hub's Spawner asks.
func (f *Service) Of(ctx context.Context, c spawner.Caller, user spawner.User, ref string) (hubapi.Environment, error) {
	u, err := starter(c, user)
	if err != nil {
		return hubapi.Environment{}, err
	}
	return f.Get(ctx, u, ref)
}

// starter returns the user for whom a Spawner asks what her session may start from.
func starter(c spawner.Caller, user spawner.User) (spawner.Caller, error) {
	if !c.Spawner || user == "" {
		return spawner.Caller{}, errs.New(
			errs.Forbidden, "only a hub's spawner asks what its users' sessions may start from",
		)
	}
	return spawner.Caller{Hub: c.Hub, User: user}, nil
}

// Get finds one environment.
func (f *Service) Get(_ context.Context, c spawner.Caller, ref string) (hubapi.Environment, error) {
	e, v, err := f.look(c, ref)
	if err != nil {
		return hubapi.Environment{}, err
	}
	return f.wire(e, v.Owner), nil
}

// Details returns all that is known of an environment.
func (f *Service) Details(ctx context.Context, c spawner.Caller, ref string) (hubapi.EnvironmentDetails, error) {
	e, v, err := f.look(c, ref)
	if err != nil {
		return hubapi.EnvironmentDetails{}, err
	}
	about, err := f.library.About(ctx, e.Digest)
	if err != nil {
		return hubapi.EnvironmentDetails{}, err
	}
	statements, err := f.library.Statements.List(e.Digest)
	if err != nil {
		return hubapi.EnvironmentDetails{}, err
	}
	inventory, err := json.Marshal(about.Inventory)
	if err != nil {
		return hubapi.EnvironmentDetails{}, err
	}
	names, err := f.library.Records.Names(e.Owner, e.Digest)
	if err != nil {
		return hubapi.EnvironmentDetails{}, err
	}
	m := e.Manifest
	return hubapi.EnvironmentDetails{
		Environment: f.wire(e, v.Owner), Names: some(names), Architecture: m.Architecture,
		Architectures: f.architectures(c, v, ref), SIF: hubapi.Blob{Digest: about.SIF.Digest, Size: about.SIF.Size},
		Parts: wireParts(about.Document), Strip: wireStrip(m.Strip), Mounts: some(m.Mounts), Sockets: some(m.Sockets),
		Devices: some(m.Devices),
		Added:   some(m.Added), Allowed: some(m.Allowed), Signers: some(about.Signers),
		Statements: wireStatements(statements, e.Owner == v.Owner), Inventory: inventory,
		Copies: f.places.copiesOf(e.Digest), Published: f.places.publishedAs(e.Digest),
		Losses: hubapi.Losses{
			ACLs: m.Losses.ACLs, Xattrs: m.Losses.Xattrs, Times: m.Losses.Times, Paths: some(m.Losses.Paths),
			Others: m.Losses.Others,
		},
		CVMFS: wireRepositories(about.Inventory, e.Use),
	}, nil
}

// architectures lists those for which a reference means an environment, this host's first.
func (f *Service) architectures(c spawner.Caller, v records.Viewer, ref string) []string {
	owner, name := f.split(c.Hub, ref)
	name, _, _ = strings.Cut(name, "@")
	out := []string{}
	found, err := f.library.Records.Entries(v, owner, name)
	if err != nil {
		return out // it has gone since
	}
	for _, e := range found {
		out = append(out, e.Architecture())
	}
	return out
}

// History lists what a name has stood for, and what came from the same session.
func (f *Service) History(_ context.Context, c spawner.Caller, ref string) ([]hubapi.Environment, error) {
	v, name, err := f.own(c, ref)
	if err != nil {
		return nil, err
	}
	all, err := f.library.Records.History(v.Owner, name)
	return f.wireAll(all, v), err
}

// Diff compares two environments.
func (f *Service) Diff(ctx context.Context, c spawner.Caller, old, now string) (hubapi.EnvironmentDiff, error) {
	a, v, err := f.look(c, old)
	if err != nil {
		return hubapi.EnvironmentDiff{}, err
	}
	b, _, err := f.look(c, now)
	if err != nil {
		return hubapi.EnvironmentDiff{}, err
	}
	done, err := f.turns.wait(ctx, v.Owner)
	if err != nil {
		return hubapi.EnvironmentDiff{}, err
	}
	defer done()
	d, err := f.library.Difference(ctx, a.Digest, b.Digest)
	if err != nil {
		return hubapi.EnvironmentDiff{}, err
	}
	full, err := json.Marshal(d)
	return hubapi.EnvironmentDiff{
		Old: f.wire(a, v.Owner), New: f.wire(b, v.Owner), Lines: some(d.Lines()), Full: full,
	}, err
}

// Verify proves what can be proven of an environment.
func (f *Service) Verify(ctx context.Context, c spawner.Caller, ref string) (hubapi.EnvironmentCheck, error) {
	e, v, err := f.look(c, ref)
	if err != nil {
		return hubapi.EnvironmentCheck{}, err
	}
	done, err := f.turns.wait(ctx, v.Owner)
	if err != nil {
		return hubapi.EnvironmentCheck{}, err
	}
	defer done()
	proven, err := f.library.Verify(ctx, e.Digest)
	if err != nil {
		return hubapi.EnvironmentCheck{}, err
	}
	return hubapi.EnvironmentCheck{
		Environment: f.wire(e, v.Owner), Bytes: proven.SIF.Size, Signers: some(proven.Signers),
		Statements: wireStatements(proven.Stated, e.Owner == v.Owner),
		Tree:       f.compare(ctx, c, e),
	}, nil
}

// SBOM returns an environment's software bill of materials.
func (f *Service) SBOM(ctx context.Context, c spawner.Caller, ref string) ([]byte, error) {
	e, _, err := f.look(c, ref)
	if err != nil {
		return nil, err
	}
	return f.library.SBOM(ctx, e)
}

// Tag returns one of the caller's environments another name.
func (f *Service) Tag(
	_ context.Context, c spawner.Caller, ref string, r hubapi.TagRequest,
) (hubapi.Environment, error) {
	v, name, err := f.own(c, ref)
	if err != nil {
		return hubapi.Environment{}, err
	}
	e, err := f.library.Records.Tag(v.Owner, name, r.Name, r.Tag)
	return f.wire(e, v.Owner), err
}

// Share says who else may use one of the caller's environments.
func (f *Service) Share(_ context.Context, c spawner.Caller, ref string, s hubapi.Share) (hubapi.Environment, error) {
	v, name, err := f.own(c, ref)
	if err != nil {
		return hubapi.Environment{}, err
	}
	e, err := f.library.Records.SetShare(
		v, name, records.Share{With: records.Audience(s.With), Group: meant(v.Groups, c.Hub, s.Group)},
	)
	return f.wire(e, v.Owner), err
}

// meant returns the group that a caller means: her Hub's may be named without the hub where that names no other of
// hers.
func meant(groups []string, hub, group string) string {
	if full := identity.HubGroup(hub, group); !slices.Contains(groups, group) && slices.Contains(groups, full) {
		return full
	}
	return group
}

// Remove takes a name of the caller's away.
func (f *Service) Remove(_ context.Context, c spawner.Caller, ref string) (hubapi.Removed, error) {
	v, name, err := f.own(c, ref)
	if err != nil {
		return hubapi.Removed{}, err
	}
	r, err := f.library.Records.Remove(v.Owner, name)
	return hubapi.Removed{Digest: r.Digest, Names: some(r.Names)}, err
}

// Groups returns those with which the caller can share.
func (f *Service) Groups(_ context.Context, c spawner.Caller) ([]string, error) {
	v, err := f.callersViewer(c)
	return v.Groups, err
}

// Usage says what the caller's environments take.
func (f *Service) Usage(ctx context.Context, c spawner.Caller) (hubapi.EnvironmentUsage, error) {
	v, err := f.callersViewer(c)
	if err != nil {
		return hubapi.EnvironmentUsage{}, err
	}
	u, err := f.library.Usage(ctx, v.Owner)
	return wireUsage(u), err
}

func wireUsage(u images.Usage) hubapi.EnvironmentUsage {
	out := hubapi.EnvironmentUsage{
		Environments: u.Environments, Own: u.Own, Shared: u.Shared, Groups: []hubapi.GroupUsage{},
		Warnings: some(u.Warnings),
	}
	for _, b := range u.Bounds {
		if b.Group == "" {
			out.Quota = b.Quota
			continue
		}
		out.Groups = append(out.Groups, hubapi.GroupUsage{Group: b.Group, Own: b.Own, Quota: b.Quota})
	}
	return out
}

// Sweep removes what nothing leads to, for an administrator.
func (f *Service) Sweep(ctx context.Context, c spawner.Caller, dry bool) (hubapi.Swept, error) {
	if !c.Admin || c.Workload != "" || c.Spawner {
		return hubapi.Swept{}, errs.New(errs.Forbidden, "only administrators sweep environments").
			With("`slipway envs rm` removes yours")
	}
	s, err := f.library.Sweep(ctx, dry)
	return wireSwept(s, dry), err
}

// Swept is metrics.Config.Library.
func (f *Service) Swept() metrics.Library {
	sums := f.library.Sweeps()
	return metrics.Library{
		Environments: sums.Environments, Bases: sums.Bases, Bytes: sums.Bytes, Waiting: sums.Waiting.Environments,
		WaitingBytes: sums.Waiting.Bytes,
	}
}

func wireSwept(s images.Swept, dry bool) hubapi.Swept {
	out := hubapi.Swept{
		Environments: some(s.Environments), Bases: some(s.Bases), Bytes: s.Bytes, Dry: dry, Files: []hubapi.SweptFile{},
		Waiting: hubapi.SweptLater(s.Waiting),
	}
	for _, f := range s.Files {
		what := "environment"
		if f.Base {
			what = "base"
		}
		out.Files = append(out.Files, hubapi.SweptFile{Digest: f.Digest, What: what, Bytes: f.Bytes, Made: f.Made})
	}
	return out
}

// inUse returns the environments that workloads need: sessions that can be started again, and jobs that have not ended.
func (f *Service) inUse(ctx context.Context) ([]string, error) {
	all, err := f.cfg.Engine().List(ctx, spawner.Caller{System: true})
	var out []string
	for _, w := range all {
		if w.Kind.Batch() && !w.Phase.Active() {
			continue
		}
		for _, digest := range []string{w.Spec.Environment, w.From, w.Kept} {
			if digest != "" {
				out = append(out, digest)
			}
		}
	}
	return out, err
}

func (f *Service) wireAll(list []records.Environment, v records.Viewer) []hubapi.Environment {
	out := make([]hubapi.Environment, 0, len(list))
	for _, e := range list {
		out = append(out, f.wire(e, v.Owner))
	}
	return out
}

// wire shows an environment to the user whose principal is viewer.
func (f *Service) wire(e records.Environment, viewer string) hubapi.Environment {
	out := hubapi.Environment{
		Digest: e.Digest, Owner: identity.UserOf(e.Owner), Mine: e.Owner == viewer, Name: e.Name, Tag: e.Tag,
		Moved: e.Moved, Note: e.Note,
		Created: e.Created, Used: e.Used, Size: e.Size, Own: e.Own, Base: e.Base.Reference, Session: e.FromSession,
		Unchanged: e.Unchanged,
		Paused:    e.Paused.Seconds(), Imports: wireImports(e.Use),
		Share: hubapi.Share{With: string(e.Share.With), Group: e.Share.Group},
	}
	if !out.Mine {
		out.Session = ""
	}
	if s, known := f.library.Glance(e.Digest); known {
		out.Known, out.Packages, out.Python, out.CUDA, out.Driver = true, s.Packages, s.Python, s.CUDA, s.Driver
	}
	return out
}

func wireParts(d manifest.Document) []hubapi.Blob {
	out := []hubapi.Blob{{What: "manifest", Digest: d.Manifest.Digest, Size: d.Manifest.Size}}
	if d.Base != nil {
		out = append(out, hubapi.Blob{What: "base", Digest: d.Base.Digest, Size: d.Base.Size})
	}
	return append(out, hubapi.Blob{What: "tail", Digest: d.Tail.Digest, Size: d.Tail.Size})
}

func wireStrip(patterns []string) []hubapi.StripRule {
	out := []hubapi.StripRule{}
	for _, r := range tree.Explain(patterns) {
		out = append(out, hubapi.StripRule{Pattern: r.Pattern, Why: r.Why})
	}
	return out
}

// wireStatements shows statements to the environment's owner, or to somebody with whom it is shared: her sessions are
// nobody else's business.
func wireStatements(list []statements.Statement, mine bool) []hubapi.Statement {
	out := []hubapi.Statement{}
	for _, s := range list {
		if !mine {
			s.Session = ""
		}
		out = append(out, hubapi.Statement{
			Site: s.Key.Site, Key: s.Key.ID, User: s.User, Session: s.Session, Kind: s.Kind, Names: some(s.Names),
			Started:  s.Started,
			Finished: s.Finished, Version: s.Version,
		})
	}
	return out
}

// some makes a list that is an array in JSON also when it is empty.
func some(list []string) []string { return append([]string{}, slices.Clone(list)...) }
