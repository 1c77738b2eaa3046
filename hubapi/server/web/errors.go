package web

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/internal/errs"
)

// gone reports whether the client has gone: before it had sent all, or while it was to be answered.
func (s *Core) gone(r *http.Request) bool {
	return TraceOf(r.Context()).unsent() || errors.Is(r.Context().Err(), context.Canceled) && s.streams.Context().Err() == nil
}

// Refuse answers with an error.
func (s *Core) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if s.gone(r) {
		audit.Of(r.Context()).Wrong = "the client has gone"
		s.log.Debug("the client has gone", "request", TraceOf(r.Context()).ID, "error", err)
		w.WriteHeader(audit.StatusGone)
		return
	}
	body := s.ErrorBody(r, err)
	kind := errs.ByCode(body.Error.Code)
	if kind == errs.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if kind == errs.Unavailable || kind == errs.NoCapacity || kind == errs.Busy {
		w.Header().Set("Retry-After", "2")
	}
	WriteJSON(w, errs.RowOf(kind).Status, body)
}

// ErrorBody says to the caller why a request fails, and to the log, where it would have changed something.
func (s *Core) ErrorBody(r *http.Request, err error) hubapi.ErrorBody {
	body := s.InWords(r, err)
	audit.Of(r.Context()).Wrong = body.Error.Message
	return body
}

// InWords says an error to the caller. What is of no kind is only logged: its words may tell of other users or of the
// host.
func (s *Core) InWords(r *http.Request, err error) hubapi.ErrorBody {
	e, ok := errors.AsType[*errs.Error](err)
	if errors.Is(err, os.ErrDeadlineExceeded) && (!ok || e.Kind == errs.Internal) && !TraceOf(r.Context()).whole() {
		ok, e = true, errs.New(errs.Invalid, "the body has stopped coming").With("send it again")
	}
	if errors.Is(err, context.Canceled) && (!ok || e.Kind == errs.Internal) {
		ok, e = true, errs.New(errs.Unavailable, "the service is ending").With("try again in a moment")
	}
	if !ok || e.Kind == errs.Internal {
		id := TraceOf(r.Context()).ID
		s.log.Error("internal error", "request", id, "error", err)
		return hubapi.ErrorBody{Error: hubapi.ErrorDetail{
			Code:    errs.RowOf(errs.Internal).Code,
			Message: "something went wrong inside Slipway; the service's log has it under request " + id,
			Remedy:  "tell your administrator the request's number",
		}}
	}
	if cause := errors.Unwrap(e); e.Kind == errs.Unavailable && cause != nil {
		s.LogFor(r.Context()).Warn(
			"a part does not answer", "request", TraceOf(r.Context()).ID, "error", err, "cause", cause,
		)
	}
	return hubapi.ErrorBody{Error: hubapi.ErrorDetail{
		Code: errs.RowOf(e.Kind).Code, Message: errs.Brief(err), Field: e.Field, Remedy: e.Remedy, Details: e.Details,
	}}
}

// Sentence makes a sentence of an error's words.
func Sentence(words string) string {
	if words == "" {
		return ""
	}
	return strings.ToUpper(words[:1]) + words[1:] + "."
}

func (s *Core) NoRoute(w http.ResponseWriter, r *http.Request) {
	s.Refuse(w, r, errs.New(errs.NotFound, "there is no such route in %s", hubapi.Base))
}

func (s *Core) NotAllowed(w http.ResponseWriter, r *http.Request) {
	s.Refuse(w, r, errs.New(errs.NotFound, "the route does not take %s", r.Method))
}
