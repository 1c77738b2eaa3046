//go:build linux

package cli

import (
	"context"
	"net/url"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/internal/errs"
	"slipway/spawner"
)

// credentials returns what opens a workload's environment from anywhere.
func (s *service) credentials() api.Credentials {
	registry, at := s.ownRegistry(), s.cfg.RegistryURL()
	return func(ctx context.Context, c spawner.Caller, id spawner.ID) (hubapi.EnvironmentCredential, error) {
		w, err := s.engine.Get(ctx, c, id)
		if err != nil {
			return hubapi.EnvironmentCredential{}, err
		}
		return registry.handOut(w, at)
	}
}

// jobUser is the name beside a workload's password. The registry looks at the password alone.
const jobUser = "job"

// handOut returns the credential of a workload, with what Apptainer and others are to be told.
func (s *ownRegistry) handOut(w spawner.Workload, at *url.URL) (hubapi.EnvironmentCredential, error) {
	switch {
	case w.Spec.Environment == "":
		return hubapi.EnvironmentCredential{}, errs.New(errs.Invalid, "the session %s was not started from an environment", w.ID).
			With("freeze it first, and start a job or a session from what that gives")
	case !w.Phase.Active():
		return hubapi.EnvironmentCredential{}, errs.New(errs.Conflict, "%s is not active any more", w.ID).With("its credential would be refused; ask while it runs or waits")
	}
	digest := w.Spec.Environment
	password, err := s.door.forImage(w)
	if err != nil {
		return hubapi.EnvironmentCredential{}, err
	}
	return hubapi.EnvironmentCredential{
		Workload: string(w.ID), Environment: digest, Registry: at.Host, Plain: at.Scheme == "http", Username: jobUser, Password: password.Reveal(),
		Reference: "oras://" + at.Host + "/" + everything + ":" + byDigest(digest).tags[0], URL: at.JoinPath("sif", digest).String(),
	}, nil
}
