package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// lookup finds the workload that a path names, and waits for what becomes of it.
type lookup struct {
	web       *web.Core
	workloads Workloads
}

// Find returns the workload that the path names, if it is of the kind that the route is for.
func (s *lookup) Find(r *http.Request, job bool) (spawner.Workload, error) {
	name, err := web.Param(r, "id")
	if err != nil {
		return spawner.Workload{}, err
	}
	c, id := web.CallerOf(r.Context()), spawner.ID(name)
	if id == hubapi.Self {
		if id = c.Workload; id == "" {
			return spawner.Workload{}, errs.Bad("id", hubapi.Self, "the id of a session, as `slipway sessions` lists them: only programs inside one have a self")
		}
	}
	w, err := s.workloads.Get(r.Context(), c, id)
	if err == nil {
		audit.OnBehalf(r.Context(), w.Owner)
	}
	if err == nil && w.Kind.Session() == job {
		return spawner.Workload{}, errs.New(errs.NotFound, "%s is of the other kind", id).
			With("sessions are below /sessions, jobs below /jobs")
	}
	return w, err
}

// await waits for a workload, at most limit.
func (s *lookup) await(
	r *http.Request, id spawner.ID, limit time.Duration, done func(spawner.Workload) bool,
) (spawner.Workload, error) {
	ctx, cancel := s.web.Stream(r.Context())
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	return s.workloads.Await(ctx, web.CallerOf(r.Context()), id, done)
}

// remove discards a workload and waits a little until it is gone. That it goes is certain once the wish is saved.
func (s *lookup) remove(r *http.Request, id spawner.ID) error {
	if err := s.workloads.Remove(r.Context(), web.CallerOf(r.Context()), id); err != nil {
		return err
	}
	_, err := s.await(r, id, removeTime, func(spawner.Workload) bool { return false })
	if errs.Is(err, errs.NotFound) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
