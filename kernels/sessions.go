package kernels

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"slipway/internal/errs"
	"slipway/kernels/wire"
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
	if err := readBody(w, r, &q); errs.Is(err, errs.TooLarge) {
		return q, err
	} else if err != nil {
		return q, errs.New(errs.Invalid, "the body is no session: %w", err).With(`send {"path": ..., "name": ..., "type": "notebook", "kernel": {"name": ...}}`)
	}
	return q, nil
}

// seen finds a session among the caller's kernels that have not ended.
func (g *gateway) seen(
	c spawner.Caller, is func(spawner.Notebook) bool,
) (k spawner.Workload, n spawner.Notebook, ok bool) {
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
		return k, n, errs.New(errs.NotFound, "there is no such session of yours").
			With("its kernel may have ended; start another")
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
	n := q.edit(spawner.Notebook{ID: wire.NewUUID()})
	if err := n.Check(); err != nil {
		return err
	}
	who, leave := g.guests.enter(c)
	defer leave()
	fresh := false
	k, err := g.awaited(who, func() (k spawner.Workload, anew bool, err error) {
		k, n, fresh, err = g.named(r, c, n, q)
		return k, fresh, err
	})
	if err != nil {
		return err
	}
	if k, err = g.settled(r.Context(), c, who, k); err != nil {
		return err
	}
	if fresh {
		g.tickets.issue(k.Kernel, c)
	}
	w.Header().Set("Location", strings.TrimSuffix(r.URL.Path, "/")+"/"+n.ID)
	writeJSON(w, http.StatusCreated, sessionOf(n, g.model(r.Context(), k)))
	return nil
}

// named returns the session of the path that a request names, with its kernel: one that is there already, or n with the
// kernel that is asked for.
func (g *gateway) named(
	r *http.Request, c spawner.Caller, n spawner.Notebook, q sessionRequest,
) (spawner.Workload, spawner.Notebook, bool, error) {
	if k, there, ok := g.seen(c, func(o spawner.Notebook) bool { return o.Path == n.Path }); ok {
		return g.noted(r, k), there, false, nil
	}
	k, fresh, err := g.kernelFor(r, c, q)
	if err != nil {
		return k, n, false, err
	}
	bound, err := g.bind(r.Context(), c, k.ID, n, fresh)
	return bound, n, fresh, err
}

// bind gives a notebook a kernel. A fresh one is there for it alone, and ends if it cannot be.
func (g *gateway) bind(
	ctx context.Context, c spawner.Caller, id spawner.ID, n spawner.Notebook, fresh bool,
) (spawner.Workload, error) {
	k, err := g.Engine.Bind(ctx, c, id, n)
	if err != nil && fresh {
		err = errors.Join(err, g.remove(ctx, c, id))
	}
	return k, err
}

// kernelFor returns the kernel that a request asks for, by its id or by its kernelspec; a fresh one was just started.
func (g *gateway) kernelFor(
	r *http.Request, c spawner.Caller, q sessionRequest,
) (k spawner.Workload, fresh bool, err error) {
	if id := q.Kernel.ID; id != nil && *id != "" {
		k, err = g.byID(c, *id)
		return g.noted(r, k), false, err
	}
	var spec string
	if q.Kernel.Name != nil {
		spec = *q.Kernel.Name
	}
	k, fresh, err = g.launch(r.Context(), c, request{Name: spec})
	return g.noted(r, k), fresh, err
}

// changeSession changes what is known of a session. With another kernel its former one is shut down, as Jupyter has it.
func (g *gateway) changeSession(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	q, err := readSession(w, r)
	if err != nil {
		return err
	}
	who, leave := g.guests.enter(c)
	defer leave()
	end, err := g.guests.turn(r.Context(), who, chi.URLParam(r, "id"))
	if err != nil {
		return err
	}
	defer end()
	old, n, err := g.findSession(r, c)
	if err != nil {
		return err
	}
	n = q.edit(n)
	if err := n.Check(); err != nil {
		return err
	}
	k, err := g.rebind(r, c, who, old, n, q)
	if err == nil {
		writeJSON(w, http.StatusOK, sessionOf(n, g.model(r.Context(), k)))
	}
	return err
}

// rebind gives a session the kernel that a request names, if it names one. The former stays until the new one is up.
// Whoever else wants to change the session meanwhile waits, or her kernel would be left without a notebook.
func (g *gateway) rebind(
	r *http.Request, c spawner.Caller, who *guest, old spawner.Workload, n spawner.Notebook, q sessionRequest,
) (spawner.Workload, error) {
	ctx := r.Context()
	if q.Kernel.ID == nil && q.Kernel.Name == nil {
		return g.Engine.Bind(ctx, c, old.ID, n)
	}
	fresh := false
	k, err := g.awaited(who, func() (k spawner.Workload, anew bool, err error) {
		k, fresh, err = g.kernelFor(r, c, q)
		return k, fresh, err
	})
	if err == nil && fresh {
		k, err = g.settled(ctx, c, who, k)
	}
	if err != nil {
		return k, err
	}
	g.guests.tell(who, k.ID)
	if _, _, there := g.seen(c, func(o spawner.Notebook) bool { return o.ID == n.ID }); fresh && !there {
		return k, errors.Join(errs.New(errs.Conflict, "the session was ended meanwhile").
			With("start another"), g.remove(ctx, c, k.ID))
	}
	bound, err := g.bind(ctx, c, k.ID, n, fresh)
	if err == nil && k.ID != old.ID {
		err = g.remove(ctx, c, old.ID)
	}
	if err == nil && fresh {
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
