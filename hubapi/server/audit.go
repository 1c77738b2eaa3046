package server

import (
	"net/http"

	"slipway/hubapi"
)

// audit logs what somebody has done that others must be able to find out later: who, what, and on what.
func (s *Server) audit(r *http.Request, what string, which ...any) {
	c := callerOf(r.Context())
	who := []any{"by", callerName(c), "user", c.User, "hub", c.Hub, "request", traceOf(r.Context()).id}
	s.log.Info(what, append(which, who...)...)
}

// audited is do, logged when it has succeeded. say gives the words, and none where nothing was changed.
func audited[In, Out any](
	s *Server, do func(*http.Request, In) (Out, error), say func(r *http.Request, in In, out Out) (what string, which []any),
) func(*http.Request, In) (Out, error) {
	return func(r *http.Request, in In) (Out, error) {
		out, err := do(r, in)
		if err != nil {
			return out, err
		}
		if what, which := say(r, in, out); what != "" {
			s.audit(r, what, which...)
		}
		return out, nil
	}
}

func auditShared(_ *http.Request, in hubapi.Share, out hubapi.Environment) (string, []any) {
	return "an environment is shared", []any{"environment", out.Digest, "name", out.Name, "tag", out.Tag, "with", in.With, "group", in.Group}
}

func auditRemoved(r *http.Request, _ none, out hubapi.Removed) (string, []any) {
	ref, _ := param(r, "ref")
	return "an environment's name is removed", []any{"environment", out.Digest, "removed", ref, "left", out.Names}
}

func auditSwept(_ *http.Request, _ none, out hubapi.Swept) (string, []any) {
	if out.Dry {
		return "", nil
	}
	return "environments that nobody uses are removed", []any{"environments", out.Environments, "bases", out.Bases, "bytes", out.Bytes}
}
