package environments

import (
	"net/url"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// jobUser is the name beside a workload's password. The registry looks at the password alone.
const jobUser = "job"

// HandOut returns the credential of a workload, with what Apptainer and others are to be told.
func (s *Registry) HandOut(w spawner.Workload, at *url.URL) (hubapi.EnvironmentCredential, error) {
	switch {
	case w.Spec.Environment == "":
		return hubapi.EnvironmentCredential{}, errs.New(
			errs.Invalid, "the session %s was not started from an environment", w.ID,
		).With("freeze it first, and start a job or a session from what that gives")
	case !w.Phase.Active():
		return hubapi.EnvironmentCredential{}, errs.New(errs.Conflict, "%s is not active any more", w.ID).
			With("its credential would be refused; ask while it runs or waits")
	}
	digest := w.Spec.Environment
	password, err := s.authority.ForImage(w)
	if err != nil {
		return hubapi.EnvironmentCredential{}, err
	}
	return hubapi.EnvironmentCredential{
		Workload: string(w.ID), Environment: digest, Registry: at.Host, Plain: at.Scheme == "http", Username: jobUser,
		Password:  password.Reveal(),
		Reference: "oras://" + at.Host + "/" + everything + ":" + byDigest(digest).tags[0],
		URL:       at.JoinPath("sif", digest).String(),
	}, nil
}
