package pages

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/webui"
)

// environmentPages are the pages of environments.
func (p *Pages) environmentPages(r chi.Router) {
	r.Get("/environments", p.show(p.environments))
	r.Get("/environments/{ref}", p.show(p.environment))
	r.Get("/environments/{owner}/{name}", p.show(p.environment))
	r.Get("/environments/{ref}/diff", p.show(p.difference))
	r.Get("/environments/{ref}/sif", web.GetOnly(p.show(p.saveEnvironment)))
	r.Get("/environments/{ref}/remove", p.show(p.askRemove))
	r.Post("/environments/{ref}/share", p.act(p.share))
	r.Post("/environments/{ref}/tag", p.act(p.tag))
	r.Post("/environments/{ref}/remove", p.act(p.removeEnvironment))
}

// refOf returns the environment that a page's path names, another user's also as people write it. Pages are routed by
// the escaped path.
func (p *Pages) refOf(r *http.Request) (string, error) {
	if p.cfg.Environments == nil {
		return "", api.NoEnvironments()
	}
	escaped := chi.URLParam(r, "ref")
	if owner := chi.URLParam(r, "owner"); owner != "" {
		escaped = owner + "/" + chi.URLParam(r, "name")
	}
	ref, err := url.PathUnescape(escaped)
	if err != nil {
		return "", errs.New(errs.NotFound, "there is no such page")
	}
	return ref, nil
}

func (p *Pages) environments(w http.ResponseWriter, r *http.Request, v visitor) error {
	if p.cfg.Environments == nil {
		return api.NoEnvironments()
	}
	all, err := p.cfg.Environments.List(r.Context(), v.caller, true)
	if err != nil {
		return err
	}
	usage, err := p.cfg.Environments.Usage(r.Context(), v.caller)
	if err != nil {
		return err
	}
	view := webui.EnvironmentsView{Environments: all, Usage: usage, Find: r.URL.Query().Get("find")}
	return webui.EnvironmentsPage(w, p.view(v), view)
}

// saveEnvironment sends an environment's image.
func (p *Pages) saveEnvironment(w http.ResponseWriter, r *http.Request, v visitor) error {
	ref, err := p.refOf(r)
	if err != nil {
		return err
	}
	e, err := p.cfg.Environments.Get(r.Context(), v.caller, ref)
	if err != nil {
		return err
	}
	saveAs(w, webui.FileName(e))
	err = p.cfg.API.Environments.SendEnvironment(w, r.WithContext(web.WithCaller(r.Context(), v.caller)), e.Digest, "sif")
	if err != nil {
		w.Header().Del("Content-Disposition")
	}
	return err
}

// environment shows one environment. Its history is its owner's alone.
func (p *Pages) environment(w http.ResponseWriter, r *http.Request, v visitor) error {
	ref, err := p.refOf(r)
	if err != nil {
		return err
	}
	details, err := p.cfg.Environments.Details(r.Context(), v.caller, ref)
	if err != nil {
		return err
	}
	view := webui.EnvironmentView{EnvironmentDetails: details}
	if view.Others, err = p.cfg.Environments.List(r.Context(), v.caller, true); err != nil {
		return err
	}
	if details.Mine {
		if view.History, err = p.cfg.Environments.History(r.Context(), v.caller, ref); err != nil {
			return err
		}
		if view.Groups, err = p.cfg.Environments.Groups(r.Context(), v.caller); err != nil {
			return err
		}
	}
	return webui.EnvironmentPage(w, p.view(v), view)
}

func (p *Pages) difference(w http.ResponseWriter, r *http.Request, v visitor) error {
	ref, err := p.refOf(r)
	if err != nil {
		return err
	}
	from := r.URL.Query().Get("from")
	if from == "" {
		return errs.Bad("from", from, "name the environment to compare with")
	}
	d, err := p.cfg.Environments.Diff(r.Context(), v.caller, from, ref)
	if err != nil {
		return err
	}
	return webui.DifferencePage(w, p.view(v), d)
}

func (p *Pages) askRemove(w http.ResponseWriter, r *http.Request, v visitor) error {
	ref, err := p.refOf(r)
	if err != nil {
		return err
	}
	e, err := p.cfg.Environments.Get(r.Context(), v.caller, ref)
	switch {
	case err != nil:
		return err
	case !e.Mine:
		return errs.New(errs.Forbidden, "%s is %s's environment", ref, e.Owner).With("only its owner removes it")
	}
	return webui.RemoveEnvironment(w, p.view(v), e)
}

func (p *Pages) share(r *http.Request, v visitor) (string, error) {
	ref, err := p.refOf(r)
	if err != nil {
		return "", err
	}
	with := hubapi.Share{With: r.PostForm.Get("with")}
	if with.With == "group" {
		with.Group = r.PostForm.Get("group")
	}
	e, err := p.cfg.Environments.Share(r.Context(), v.caller, ref, with)
	if err != nil {
		return "", err
	}
	what, which := api.AuditShared(r, with, e)
	audit.Note(r.Context(), what, which...)
	return environmentPath(ref), nil
}

func (p *Pages) tag(r *http.Request, v visitor) (string, error) {
	ref, err := p.refOf(r)
	if err != nil {
		return "", err
	}
	e, err := p.cfg.Environments.Tag(
		r.Context(), v.caller, ref, hubapi.TagRequest{Name: r.PostForm.Get("name"), Tag: r.PostForm.Get("tag")},
	)
	if err != nil {
		return "", err
	}
	return environmentPath(webui.EnvironmentRef(e)), nil
}

func (p *Pages) removeEnvironment(r *http.Request, v visitor) (string, error) {
	ref, err := p.refOf(r)
	if err != nil {
		return "", err
	}
	gone, err := p.cfg.Environments.Remove(r.Context(), v.caller, ref)
	if err != nil {
		return "", err
	}
	audit.Note(
		r.Context(), "an environment's name is removed", "environment", gone.Digest, "removed", ref, "left", gone.Names,
	)
	return "environments", nil
}

func environmentPath(ref string) string { return "environments/" + url.PathEscape(ref) }
