package api

import (
	"cmp"
	"context"
	"net/http"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Credentials gives what opens a workload's environment from anywhere, to who may see the workload.
type Credentials func(ctx context.Context, c spawner.Caller, id spawner.ID) (hubapi.EnvironmentCredential, error)

// environmentCredential gives a credential. It is in no cache, and in the log without its password.
func (s *EnvironmentHandlers) environmentCredential(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.CredentialRequest
	if err := web.Decode(w, r, &req); err != nil {
		return err
	}
	c := web.CallerOf(r.Context())
	id := cmp.Or(spawner.ID(req.Workload), c.Workload)
	switch {
	case s.registry == nil:
		return NoEnvironments()
	case c.Spawner:
		return errs.New(errs.Forbidden, "a hub's spawner runs nothing in environments").
			With("ask from the session or job, or with its owner's token")
	case id == "":
		return errs.Bad("workload", "", "name a session or job of yours, or ask from within one")
	}
	out, err := s.registry(r.Context(), c, id)
	if err != nil {
		return err
	}
	audit.Note(
		r.Context(), "a credential for an environment is given out", "environment", out.Environment, "workload",
		out.Workload,
	)
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}
