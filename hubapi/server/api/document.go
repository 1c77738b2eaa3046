package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/openapi"
)

// DocumentRoutes are the routes that say what the API is. Nobody needs to be known for them: they tell nothing of a site.
func (s *API) DocumentRoutes(r chi.Router) {
	r.Method("GET", hubapi.Base+"/openapi.json", s.web.Plain(document))
	r.Method("GET", hubapi.Base+"/docs", s.web.Plain(documentPage))
}

func document(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openapi.Document)
	return nil
}

func documentPage(w http.ResponseWriter, _ *http.Request) error {
	page, err := openapi.Page()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set(
		"Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	)
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(page)
	return nil
}
