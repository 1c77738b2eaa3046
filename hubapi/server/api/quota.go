package api

import (
	"net/http"

	"slipway/hubapi"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
)

// quota tells how full the directories of whoever asks are.
func (s *UserHandlers) quotaOf(r *http.Request, _ web.None) (hubapi.Quotas, error) {
	c := web.CallerOf(r.Context())
	switch {
	case s.quota == nil:
		return hubapi.Quotas{}, errs.New(errs.Missing, "this service does not know how full homes are")
	case c.User == "":
		return hubapi.Quotas{}, errs.New(errs.Forbidden, "only users have a home").With("ask with a user's token")
	}
	return s.quota(r.Context(), c)
}
