package server

import (
	"errors"
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
)

func noEnvironments() error {
	return errs.New(errs.Missing, "this service keeps no environments").With("the administrator runs `slipway doctor` to see what is missing")
}

func (s *Server) listEnvironments(r *http.Request, _ none) (hubapi.Environments, error) {
	list := hubapi.Environments{Environments: []hubapi.Environment{}}
	if s.cfg.Environments == nil {
		return list, nil
	}
	all, err := s.cfg.Environments.Environments(r.Context(), callerOf(r.Context()))
	list.Environments = append(list.Environments, all...)
	return list, err
}

func (s *Server) environment(r *http.Request, _ none) (hubapi.Environment, error) {
	ref, err := param(r, "ref")
	if err != nil {
		return hubapi.Environment{}, err
	}
	if s.cfg.Environments == nil {
		return hubapi.Environment{}, noEnvironments()
	}
	return s.cfg.Environments.Environment(r.Context(), callerOf(r.Context()), ref)
}

// freeze streams the steps of a freeze, then its result. The freeze goes on when the reader goes away.
func (s *Server) freeze(w http.ResponseWriter, r *http.Request) error {
	var req hubapi.FreezeRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	found, err := s.find(r, false)
	if err != nil {
		return err
	}
	if s.cfg.Freeze == nil {
		return noEnvironments()
	}
	ctx, cancel := s.stream(r.Context())
	defer cancel()
	out := startSSE(ctx, w)
	defer out.end()
	began := time.Now()
	env, err := s.cfg.Freeze(ctx, callerOf(r.Context()), found.ID, req, func(p hubapi.Progress) { out.send(hubapi.EventProgress, 0, p) })
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // the reader or the service has gone, not the freeze
	}
	s.cfg.Metrics.Freeze(errs.RowOf(errs.KindOf(err)).Code, err == nil, time.Since(began))
	if err != nil {
		out.send(hubapi.EventError, 0, s.errorBody(r, err))
		return nil
	}
	out.send(hubapi.EventDone, 0, env)
	return nil
}
