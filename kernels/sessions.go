package kernels

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"slipway/internal/errs"
	"slipway/spawner"
)

// What Jupyter calls a session is a notebook with its kernel. It lasts as long as the kernel does.

// sessionModel is a session as clients know it.
type sessionModel struct {
	ID       string         `json:"id"`
	Path     string         `json:"path"`
	Name     string         `json:"name"`
	Type     string         `json:"type"`
	Kernel   model          `json:"kernel"`
	Notebook *notebookModel `json:"notebook,omitempty"` // for clients of old
}

type notebookModel struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

func sessionOf(n spawner.Notebook, kernel model) sessionModel {
	m := sessionModel{ID: n.ID, Path: n.Path, Name: n.Name, Type: n.Type, Kernel: kernel}
	if n.Type == "notebook" {
		m.Notebook = &notebookModel{n.Path, n.Name}
	}
	return m
}

// sessionRequest is what a client says of a session. What it does not say stays as it is.
type sessionRequest struct {
	Path, Name, Type *string
	Kernel           struct{ ID, Name *string }
}

func (q sessionRequest) edit(n spawner.Notebook) spawner.Notebook {
	for to, from := range map[*string]*string{&n.Path: q.Path, &n.Name: q.Name, &n.Type: q.Type} {
		if from != nil {
			*to = *from
		}
	}
	return n
}

func readSession(w http.ResponseWriter, r *http.Request) (q sessionRequest, err error) {
	if err := readBody(w, r, &q); err != nil {
		return q, errs.New(errs.Invalid, "the body is no session: %w", err).With(`send {"path": ..., "name": ..., "type": "notebook", "kernel": {"name": ...}}`)
	}
	return q, nil
}

// seen finds a session among the caller's kernels that have not ended.
func (g *gateway) seen(c spawner.Caller, is func(spawner.Notebook) bool) (k spawner.Workload, n spawner.Notebook, ok bool) {
	for _, k := range slices.Backward(g.running(c)) { // the youngest kernel of a notebook is the one that it has
		if i := slices.IndexFunc(k.Notebooks, is); i >= 0 {
			return k, k.Notebooks[i], true
		}
	}
	return k, n, false
}

func (g *gateway) findSession(r *http.Request, c spawner.Caller) (spawner.Workload, spawner.Notebook, error) {
	id := chi.URLParam(r, "id")
	k, n, ok := g.seen(c, func(n spawner.Notebook) bool { return n.ID == id })
	if !ok {
		return k, n, errs.New(errs.NotFound, "there is no such session of yours").With("its kernel may have ended; start another")
	}
	return g.noted(r, k), n, nil
}

func (g *gateway) sessions(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	all := slices.DeleteFunc(g.running(c), func(k spawner.Workload) bool { return len(k.Notebooks) == 0 })
	list := []sessionModel{}
	for i, m := range g.models(r.Context(), all) {
		for _, n := range all[i].Notebooks {
			list = append(list, sessionOf(n, m))
		}
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

func (g *gateway) session(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	k, n, err := g.findSession(r, c)
	if err == nil {
		writeJSON(w, http.StatusOK, sessionOf(n, g.model(r.Context(), k)))
	}
	return err
}

// openSession gives the session of a path, which is made with a kernel if there is none.
func (g *gateway) openSession(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	q, err := readSession(w, r)
	switch {
	case err != nil:
		return err
	case q.Path == nil || *q.Path == "":
		return errs.Bad("path", "", "the path of the notebook, or another word for it")
	case q.Type == nil || *q.Type == "":
		return errs.Bad("type", "", "what it is, such as notebook or console")
	}
	k, n, fresh, err := g.named(r, c, q)
	if err != nil {
		return err
	}
	if k, err = g.settled(r.Context(), c, k, fresh); err != nil {
		return err
	}
	if fresh {
		g.tickets.issue(k.Kernel, c)
	}
	w.Header().Set("Location", strings.TrimSuffix(r.URL.Path, "/")+"/"+n.ID)
	writeJSON(w, http.StatusCreated, sessionOf(n, g.model(r.Context(), k)))
	return nil
}

// named gives the kernel of the path that a request names, one at a time, so that two requests do not start two.
func (g *gateway) named(r *http.Request, c spawner.Caller, q sessionRequest) (k spawner.Workload, n spawner.Notebook, fresh bool, err error) {
	who, leave := g.guests.enter(c)
	defer leave()
	who.naming.Lock()
	defer who.naming.Unlock()
	if k, n, ok := g.seen(c, func(n spawner.Notebook) bool { return n.Path == *q.Path }); ok {
		return g.noted(r, k), n, false, nil
	}
	n = q.edit(spawner.Notebook{ID: newID()})
	if k, fresh, err = g.kernelFor(r, c, q); err != nil {
		return k, n, fresh, err
	}
	bound, err := g.Engine.Bind(r.Context(), c, k.ID, n)
	if err != nil && fresh {
		_ = g.Engine.Remove(r.Context(), c, k.ID) // the first error says why; else its life ends it
	}
	return bound, n, fresh, err
}

// kernelFor gives the kernel that a request asks for, by its id or by its kernelspec; a fresh one was just started.
func (g *gateway) kernelFor(r *http.Request, c spawner.Caller, q sessionRequest) (k spawner.Workload, fresh bool, err error) {
	if id := q.Kernel.ID; id != nil && *id != "" {
		k, err = g.byID(c, *id)
		return g.noted(r, k), false, err
	}
	var spec string
	if q.Kernel.Name != nil {
		spec = *q.Kernel.Name
	}
	k, err = g.launch(r.Context(), c, request{Name: spec})
	return g.noted(r, k), err == nil, err
}

// changeSession changes what is known of a session. With another kernel its former one is shut down, as Jupyter has it.
func (g *gateway) changeSession(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	q, err := readSession(w, r)
	if err != nil {
		return err
	}
	old, n, err := g.findSession(r, c)
	if err != nil {
		return err
	}
	k, err := g.rebind(r, c, old, q.edit(n), q)
	if err == nil {
		writeJSON(w, http.StatusOK, sessionOf(q.edit(n), g.model(r.Context(), k)))
	}
	return err
}

// rebind gives a session the kernel that a request names, if it names one. The former stays until the new one is up.
func (g *gateway) rebind(r *http.Request, c spawner.Caller, old spawner.Workload, n spawner.Notebook, q sessionRequest) (spawner.Workload, error) {
	if q.Kernel.ID == nil && q.Kernel.Name == nil {
		return g.Engine.Bind(r.Context(), c, old.ID, n)
	}
	k, fresh, err := g.kernelFor(r, c, q)
	if err == nil && fresh {
		k, err = g.settled(r.Context(), c, k, fresh)
	}
	if err != nil {
		return k, err
	}
	bound, err := g.Engine.Bind(r.Context(), c, k.ID, n)
	switch {
	case err != nil && fresh:
		return k, errors.Join(err, g.Engine.Remove(r.Context(), c, k.ID))
	case err == nil && k.ID != old.ID:
		err = g.Engine.Remove(r.Context(), c, old.ID)
	}
	if fresh {
		g.tickets.issue(k.Kernel, c)
	}
	return bound, err
}

// closeSession ends a session, and so its kernel.
func (g *gateway) closeSession(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	k, _, err := g.findSession(r, c)
	if err == nil {
		err = g.Engine.Remove(r.Context(), c, k.ID)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}
