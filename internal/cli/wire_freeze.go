package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slipway/hubapi"
	"slipway/images"
	"slipway/internal/errs"
	"slipway/spawner"
)

// freezer joins the engine, which knows sessions, with the library, which knows trees. It is the one place where the two meet.
type freezer struct {
	engine  *spawner.Manager
	library *images.Library
	// capture gives a session's file tree.
	capture func(context.Context, spawner.ID) (images.Source, error)
	// principal gives the word by which a hub's user owns environments.
	principal func(hub string, user spawner.User) string
	// life ends with the service: a freeze outlives the request that asked for it.
	life context.Context
}

// Freeze makes an environment out of a session that the caller may change.
func (f *freezer) Freeze(
	ctx context.Context, c spawner.Caller, id spawner.ID, r hubapi.FreezeRequest, progress func(hubapi.Progress),
) (hubapi.Environment, error) {
	w, err := f.engine.Get(ctx, c, id)
	if err != nil {
		return hubapi.Environment{}, err
	}
	switch {
	case w.Kind == spawner.Job:
		return hubapi.Environment{}, errs.New(errs.Invalid, "%s is a job", id).With("its environment is frozen already: " + w.Spec.Environment)
	case w.Phase == spawner.Pending || w.Phase == spawner.Leased || w.Phase == spawner.Removing:
		return hubapi.Environment{}, errs.New(errs.Conflict, "session %s is %s: it has no file tree", id, w.Phase).With("wait until it runs")
	}
	source, err := f.capture(ctx, id)
	if err != nil {
		return hubapi.Environment{}, fmt.Errorf("find the file tree of %s: %w", id, err)
	}
	e, err := f.library.Freeze(f.life, images.Request{
		Owner: f.principal(w.Hub, w.Owner), Name: r.Name, Tag: r.Tag, Note: r.Note, Key: string(id), Source: source,
		Progress: func(p images.Progress) { progress(wireProgress(p)) },
	})
	if err != nil {
		return hubapi.Environment{}, err
	}
	return wireEnvironment(e), nil
}

// Environments lists the caller's environments.
func (f *freezer) Environments(_ context.Context, c spawner.Caller) ([]hubapi.Environment, error) {
	owner, err := f.ownerOf(c)
	if err != nil {
		return nil, err
	}
	all, err := f.library.List(owner)
	list, taken := make([]hubapi.Environment, 0, len(all)), map[string]bool{}
	for _, e := range all { // the newest first
		wired := wireEnvironment(e)
		if label := e.Name + ":" + e.Tag; e.Tag != "" && taken[label] {
			wired.Tag = "" // it has moved on to a newer one
		} else {
			taken[label] = true
		}
		list = append(list, wired)
	}
	return list, err
}

// Environment finds one of the caller's environments.
func (f *freezer) Environment(_ context.Context, c spawner.Caller, ref string) (hubapi.Environment, error) {
	owner, err := f.ownerOf(c)
	if err != nil {
		return hubapi.Environment{}, err
	}
	e, err := f.library.Get(owner, ref)
	return wireEnvironment(e), err
}

// forJob finds the environment of a job: its digest and its file.
func (f *freezer) forJob(_ context.Context, hub string, user spawner.User, ref string) (digest, path string, err error) {
	e, err := f.library.Get(f.principal(hub, user), ref)
	if err != nil {
		return "", "", err
	}
	return e.Digest, f.library.Path(e), nil
}

// ownerOf gives whose environments a caller sees. A job's agent speaks for the job alone, and a Spawner for no user.
func (f *freezer) ownerOf(c spawner.Caller) (string, error) {
	if c.User == "" || c.Spawner || strings.HasPrefix(string(c.Workload), "j-") {
		return "", errs.New(errs.Forbidden, "environments are their owners', by a token or from a session")
	}
	return f.principal(c.Hub, c.User), nil
}

func wireProgress(p images.Progress) hubapi.Progress {
	percent := p.Percent
	if p.Total == 0 && percent == 0 {
		percent = -1
	}
	return hubapi.Progress{Stage: string(p.Stage), Percent: percent, Bytes: p.Bytes, Message: stageMessage(p)}
}

// stageMessage tells a stage to people.
func stageMessage(p images.Progress) string {
	switch p.Stage {
	case images.Scanning:
		return "looking for changes"
	case images.Copying:
		return "taking a snapshot of the changes"
	case images.Packing:
		return "packing the environment"
	case images.Writing:
		return "writing the image and computing its digest"
	default:
		return string(p.Stage)
	}
}

func wireEnvironment(e images.Environment) hubapi.Environment {
	return hubapi.Environment{
		Digest: e.Digest, Name: e.Name, Tag: e.Tag, Note: e.Note, Created: e.Created, Size: e.Size, Base: e.Base.Reference,
		Session: e.FromSession, Unchanged: e.Unchanged, Packages: len(e.Manifest.Python), Python: pythonOf(e.Manifest),
	}
}

// pythonOf reads the version of Python off the directory that holds most packages.
func pythonOf(m images.Manifest) string {
	counts := map[string]int{}
	for _, p := range m.Python {
		for part := range strings.SplitSeq(p.Path, "/") {
			if version, ok := strings.CutPrefix(part, "python3."); ok {
				counts["3."+version]++
			}
		}
	}
	versions := []string{}
	for v := range counts {
		versions = append(versions, v)
	}
	slices.SortFunc(versions, func(a, b string) int { return counts[b] - counts[a] })
	if len(versions) == 0 {
		return ""
	}
	return versions[0]
}
