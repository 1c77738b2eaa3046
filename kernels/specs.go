package kernels

import (
	"cmp"
	"maps"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"slipway/internal/errs"
	"slipway/spawner"
)

// specModel is a kernelspec as clients know it.
type specModel struct {
	Name      string            `json:"name"`
	Spec      specFile          `json:"spec"`
	Resources map[string]string `json:"resources"`
}

type specFile struct {
	Argv          []string          `json:"argv"`
	DisplayName   string            `json:"display_name"`
	Language      string            `json:"language"`
	InterruptMode string            `json:"interrupt_mode"`
	Env           map[string]string `json:"env"`
	Metadata      map[string]any    `json:"metadata"`
}

// modelOf makes it, for clients that know the gateway by the path root.
func modelOf(root string, s Spec) specModel {
	m := specModel{Name: s.Name, Resources: map[string]string{}, Spec: specFile{
		Argv: s.Session.Argv, DisplayName: s.DisplayName, Language: s.Language,
		InterruptMode: cmp.Or(s.Session.Interrupt, "signal"),
		Env:           map[string]string{}, Metadata: map[string]any{},
	}}
	maps.Copy(m.Spec.Metadata, s.Metadata)
	for _, l := range s.Logos {
		m.Resources[l.Key] = root + "/kernelspecs/" + s.Name + "/" + l.File
	}
	return m
}

// rootOf returns the path of the gateway itself, from one of a kernelspec.
func rootOf(path string) string { return path[:max(0, strings.LastIndex(path, "/api/kernelspecs"))] }

func (g *gateway) specs(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	all := g.Specs(c)
	body := struct {
		Default string               `json:"default"`
		Specs   map[string]specModel `json:"kernelspecs"`
	}{Specs: map[string]specModel{}}
	for i, s := range all {
		if i == 0 {
			body.Default = s.Name
		}
		body.Specs[s.Name] = modelOf(rootOf(r.URL.Path), s)
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (g *gateway) spec(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	s, err := g.specOf(c, chi.URLParam(r, "name"))
	if err == nil {
		writeJSON(w, http.StatusOK, modelOf(rootOf(r.URL.Path), s))
	}
	return err
}

// specOf finds a kernelspec by its name; none means the default.
func (g *gateway) specOf(c spawner.Caller, name string) (Spec, error) {
	var names []string
	for _, s := range g.Specs(c) {
		if s.Name == name || name == "" {
			return s, nil
		}
		names = append(names, s.Name)
	}
	err := errs.New(errs.NotFound, "there is no kernel called %q for you", errs.Shorten(name))
	if len(names) == 0 {
		return Spec{}, err.With("ask your administrator for one")
	}
	return Spec{}, err.With("choose one of " + strings.Join(names, ", "))
}
