package server

import (
	"context"
	"errors"
	"net/http"
	"os"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/internal/errs"
)

// gone reports whether the client has gone: before it had sent all, or while it was to be answered.
func (s *Server) gone(r *http.Request) bool {
	return traceOf(r.Context()).unsent() || errors.Is(r.Context().Err(), context.Canceled) && s.closing.Err() == nil
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if s.gone(r) {
		audit.Of(r.Context()).Wrong = "the client has gone"
		s.log.Debug("the client has gone", "request", traceOf(r.Context()).id, "error", err)
		w.WriteHeader(audit.StatusGone)
		return
	}
	body := s.errorBody(r, err)
	kind := errs.ByCode(body.Error.Code)
	if kind == errs.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if kind == errs.Unavailable || kind == errs.NoCapacity || kind == errs.Busy {
		w.Header().Set("Retry-After", "2")
	}
	writeJSON(w, errs.RowOf(kind).Status, body)
}

// errorBody says to the caller why a request fails, and to the log, where it would have changed something.
func (s *Server) errorBody(r *http.Request, err error) hubapi.ErrorBody {
	body := s.inWords(r, err)
	audit.Of(r.Context()).Wrong = body.Error.Message
	return body
}

// inWords says an error to the caller. What is of no kind is only logged: its words may tell of other users or of the host.
func (s *Server) inWords(r *http.Request, err error) hubapi.ErrorBody {
	e, ok := errors.AsType[*errs.Error](err)
	if errors.Is(err, os.ErrDeadlineExceeded) && (!ok || e.Kind == errs.Internal) && !traceOf(r.Context()).whole() {
		ok, e = true, errs.New(errs.Invalid, "the body has stopped coming").With("send it again")
	}
	if errors.Is(err, context.Canceled) && (!ok || e.Kind == errs.Internal) {
		ok, e = true, errs.New(errs.Unavailable, "the service is ending").With("try again in a moment")
	}
	if !ok || e.Kind == errs.Internal {
		id := traceOf(r.Context()).id
		s.log.Error("internal error", "request", id, "error", err)
		return hubapi.ErrorBody{Error: hubapi.ErrorDetail{
			Code: errs.RowOf(errs.Internal).Code, Message: "something went wrong inside Slipway; the service's log has it under request " + id,
			Remedy: "tell your administrator the request's number",
		}}
	}
	if cause := errors.Unwrap(e); e.Kind == errs.Unavailable && cause != nil {
		s.logOf(traceOf(r.Context())).Warn("a part does not answer", "request", traceOf(r.Context()).id, "error", err, "cause", cause)
	}
	return hubapi.ErrorBody{Error: hubapi.ErrorDetail{
		Code: errs.RowOf(e.Kind).Code, Message: errs.Brief(err), Field: e.Field, Remedy: e.Remedy, Details: e.Details,
	}}
}
