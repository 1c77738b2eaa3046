package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// takeEnvironment takes the option out that names an environment to start from, and puts the image in on which that one
// stands: a profile that does not offer it cannot start it, and another image beside it is a contradiction. Whether the
// user may is the engine's to say once more.
func (s *SessionHandlers) takeEnvironment(
	ctx context.Context, c spawner.Caller, req hubapi.SessionRequest,
) (ref string, err error) {
	value := req.Options["environment"]
	delete(req.Options, "environment")
	switch v := value.(type) {
	case nil:
	case string:
		ref = strings.TrimSpace(v)
	default:
		return "", errs.Bad("options.environment", fmt.Sprintf("%.40v", v), "a digest, name:tag or owner/name:tag")
	}
	switch {
	case ref == "":
		return "", nil
	case s.environments == nil:
		return "", NoEnvironments()
	}
	e, err := s.environments.Of(ctx, c, spawner.User(req.User), ref)
	if errs.Is(err, errs.NotFound) {
		return ref, s.goOn(ctx, c, req, ref, err)
	}
	if err != nil {
		return "", err
	}
	return e.Digest, standOn(
		s.offers.Of(c.Hub, spawner.User(req.User)), e.Base, "environment "+shortRef(ref), req.Options,
	)
}

// goOn finds the image for a session with kept changes whose environment is not its user's to choose any more.
func (s *SessionHandlers) goOn(
	ctx context.Context, c spawner.Caller, req hubapi.SessionRequest, ref string, otherwise error,
) error {
	all, err := s.workloads.SessionsOf(ctx, c, spawner.User(req.User), req.ServerName)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(
		all, func(w spawner.Workload) bool { return w.Spec.Environment == ref && w.Want != spawner.WantGone },
	)
	if i < 0 {
		return otherwise
	}
	return standOn(
		s.offers.Of(c.Hub, spawner.User(req.User)), all[i].Spec.Image, "environment "+shortRef(ref),
		req.Options,
	)
}

// standOn chooses the image of the catalogue that the engine knows as base.
func standOn(offers catalog.Catalogue, base, what string, options map[string]any) error {
	_, spec, err := offers.Resolve(map[string]any{"profile": options["profile"]})
	if err != nil {
		return err
	}
	if given, ok := options["image"].(string); ok && given != "" {
		if i, known := offers.Image(given); known && i.Ref != base {
			return errs.New(errs.Invalid, "%s stands on the image %s, but image %s is %s", what, base, given, i.Ref).
				With("leave the image out, or start from an environment that stands on it")
		}
		return nil // what is no image, or not the profile's, is refused with the other options
	}
	for _, p := range offers.Profiles {
		if p.Name != spec.Profile {
			continue
		}
		for _, name := range p.Images {
			if i, ok := offers.Image(name); ok && i.Ref == base {
				options["image"] = name
				return nil
			}
		}
	}
	return errs.New(
		errs.Invalid, "%s stands on the image %s, which profile %s does not offer", what, base, spec.Profile,
	).With(startsOn(offers, base))
}

// startsOn says where an environment over base can be started.
func startsOn(offers catalog.Catalogue, base string) string {
	var names []string
	for _, p := range offers.Profiles {
		if slices.ContainsFunc(p.Images, func(name string) bool { i, ok := offers.Image(name); return ok && i.Ref == base }) {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return "nothing that is offered to you has that image: freeze again from a session of an image that it offers"
	}
	return "choose a profile that does: " + strings.Join(names, ", ")
}

// shortRef bounds what an error repeats of a reference, and shows of a digest what people compare.
func shortRef(ref string) string {
	if hex, whole := strings.CutPrefix(ref, "sha256:"); whole && len(hex) == 64 {
		return hex[:12]
	}
	return fmt.Sprintf("%.80s", ref)
}

// Startable returns what a spawn form offers to start from. Kept changes over an environment that its user may not
// choose any more are offered too: nothing that was kept becomes unreachable. It says nothing of what cannot be listed:
// the images are still there.
func (s *SessionHandlers) Startable(
	ctx context.Context, c spawner.Caller, user spawner.User, kept []spawner.Workload,
) []hubapi.Environment {
	if s.environments == nil || user == "" || !c.Spawner {
		return nil
	}
	all, err := s.environments.For(ctx, c, user)
	if err != nil {
		s.log.Warn("a spawn form offers no environments", "user", user, "error", err)
	}
	for _, w := range kept {
		digest := w.Spec.Environment
		if digest != "" && !slices.ContainsFunc(all, func(e hubapi.Environment) bool { return e.Digest == digest }) {
			all = append(all, hubapi.Environment{Digest: digest, Mine: true, Base: w.Spec.Image, Created: w.Created})
		}
	}
	return all
}

// ChosenEnvironment replaces the environment of the last choice by its digest, if there is still one of that name.
func (s *SessionHandlers) ChosenEnvironment(ctx context.Context, c spawner.Caller, user spawner.User, options map[string]any) {
	ref, _ := options["environment"].(string)
	if ref == "" || s.environments == nil || user == "" || !c.Spawner {
		return
	}
	if e, err := s.environments.Of(ctx, c, user, ref); err == nil {
		options["environment"] = e.Digest
	}
}
