package pages

import (
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/webui"
)

// filePages are what a job that has ended has left, for download: they are saved, never shown as pages of this service.
func (p *Pages) filePages(r chi.Router) {
	r.Get("/jobs/{id}/files/{name}", p.show(p.saveFile))
	r.Get("/jobs/{id}/log", web.GetOnly(p.show(p.saveLog)))
}

func (p *Pages) saveFile(w http.ResponseWriter, r *http.Request, v visitor) error {
	found, err := p.named(r, v)
	if err != nil {
		return err
	}
	escaped := chi.URLParam(r, "name") // pages are routed by the escaped path
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return errs.Bad("name", escaped, "a URL-escaped word")
	}
	saveAs(w, name)
	if err := p.cfg.API.Jobs.SendFile(w, r, v.caller, found.ID, name); err != nil {
		w.Header().Del("Content-Disposition")
		return err
	}
	return nil
}

// saveLog sends a job's output as far as it is written.
func (p *Pages) saveLog(w http.ResponseWriter, r *http.Request, v visitor) error {
	found, err := p.named(r, v)
	if err != nil {
		return err
	}
	log, err := p.cfg.Workloads.Log(r.Context(), v.caller, found.ID, 0, false)
	if err != nil {
		return err
	}
	defer log.Close()
	saveAs(w, string(found.ID)+".log")
	web.AsText(w)
	if _, err := io.Copy(w, log); err != nil {
		panic(http.ErrAbortHandler) // the reader must not take half of it for the whole
	}
	return nil
}

// saveAs has a browser save what follows, under this name.
func saveAs(w http.ResponseWriter, name string) {
	w.Header().Set("Cache-Control", "private, no-store")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
}

// left notes in a page's item what its job has left, once that has ended. What cannot be looked at is not offered.
func (p *Pages) left(r *http.Request, v visitor, item *webui.Item) {
	if item.Kind.Session() || item.Phase.Active() {
		return
	}
	item.Files, _ = p.cfg.API.Jobs.FilesOf(r.Context(), v.caller, item.ID)
	if item.Up.IsZero() {
		return // it has never run
	}
	log, err := p.cfg.Workloads.Log(r.Context(), v.caller, item.ID, 0, false)
	if err != nil {
		return
	}
	defer log.Close()
	if f, ok := log.(interface{ Stat() (fs.FileInfo, error) }); ok {
		if info, err := f.Stat(); err == nil {
			item.Log = info.Size()
		}
	}
}
