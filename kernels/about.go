package kernels

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-chi/chi/v5"

	"slipway/kernels/wire"
	"slipway/spawner"
)

// me says who is calling, in Jupyter's words.
func (g *gateway) me(w http.ResponseWriter, _ *http.Request, c spawner.Caller) error {
	name := string(c.User)
	writeJSON(w, http.StatusOK, map[string]any{
		"identity": map[string]any{
			"username": name, "name": name, "display_name": name, "initials": nil, "avatar_url": nil, "color": nil,
		},
		"permissions": map[string][]string{},
	})
	return nil
}

// status sums up the caller's kernels.
func (g *gateway) status(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	all := g.models(r.Context(), g.running(c))
	body := struct {
		Started     string `json:"started"`
		Activity    string `json:"last_activity"`
		Connections int    `json:"connections"`
		Kernels     int    `json:"kernels"`
	}{Started: wire.Stamp(g.began), Activity: wire.Stamp(g.began), Kernels: len(all)}
	for _, m := range all {
		body.Connections += m.Connections
		body.Activity = max(body.Activity, m.Activity) // of one form and zone
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

// deeds say what each route is for.
func deeds() map[string]string {
	return map[string]string{
		"GET /api":                         "The version of Jupyter Server whose API this is",
		"GET /api/swagger.json":            "This text",
		"GET /api/swagger.yaml":            "This text",
		"GET /api/me":                      "Who is calling",
		"GET /api/status":                  "How many kernels the caller has, and when they were last used",
		"GET /api/kernelspecs":             "The kernelspecs that are open to the caller",
		"GET /api/kernelspecs/{name}":      "One kernelspec",
		"GET /kernelspecs/{name}/{file}":   "A file that a kernelspec names, such as its logo",
		"GET /api/kernels":                 "The caller's kernels",
		"POST /api/kernels":                "Start a kernel",
		"GET /api/kernels/{id}":            "One kernel",
		"DELETE /api/kernels/{id}":         "Shut a kernel down; what it leases is free then",
		"POST /api/kernels/{id}/interrupt": "Interrupt what a kernel does",
		"POST /api/kernels/{id}/restart":   "Have a kernel begin anew; what it leases stays its own",
		"GET /api/kernels/{id}/channels":   "A websocket to a kernel",
		"GET /api/sessions":                "The caller's notebooks that have kernels",
		"POST /api/sessions":               "Give a notebook a kernel, unless it has one",
		"GET /api/sessions/{id}":           "One notebook with its kernel",
		"PATCH /api/sessions/{id}":         "Rename a notebook, or give it another kernel",
		"DELETE /api/sessions/{id}":        "Shut a notebook's kernel down",
	}
}

var pathWord = regexp.MustCompile(`\{(\w+)\}`)

// swagger describes routes in OpenAPI 2.0. It is JSON, which is YAML too.
func swagger(routes chi.Routes) ([]byte, error) {
	type parameter struct {
		Name     string `json:"name"`
		In       string `json:"in"`
		Required bool   `json:"required"`
		Type     string `json:"type"`
	}
	paths, words := map[string]map[string]any{}, deeds()
	err := chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if paths[route] == nil {
			paths[route] = map[string]any{}
		}
		found := []parameter{}
		for _, m := range pathWord.FindAllStringSubmatch(route, -1) {
			found = append(found, parameter{m[1], "path", true, "string"})
		}
		paths[route][strings.ToLower(method)] = map[string]any{
			"summary": words[method+" "+route], "parameters": found,
			"responses": map[string]any{"default": map[string]string{"description": "JSON"}},
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"swagger":  "2.0",
		"info":     map[string]string{"title": "Kernels of Slipway, as Jupyter Server has them", "version": apiVersion},
		"paths":    paths,
		"produces": []string{"application/json"},
		"securityDefinitions": map[string]any{
			"token": map[string]string{"type": "apiKey", "name": "Authorization", "in": "header"},
		},
		"security": []map[string][]string{{"token": {}}},
	})
}

// describe serves the description of the routes.
func describe(routes chi.Routes, form string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := swagger(routes)
		if err != nil {
			writeFault(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", form)
		_, _ = w.Write(text) // the reader has gone: nobody is left to tell
	}
}
