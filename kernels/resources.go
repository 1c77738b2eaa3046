package kernels

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"slipway/internal/errs"
	"slipway/spawner"
)

// logo gives one of the files that a kernelspec names. There are no others: the path is looked for among them, not on a disk.
func (g *gateway) logo(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	missing := errs.New(errs.NotFound, "the kernelspec has no such file")
	name, file := chi.URLParam(r, "name"), chi.URLParam(r, "file")
	all := g.Specs(c)
	i := slices.IndexFunc(all, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return missing
	}
	at := slices.IndexFunc(all[i].Logos, func(l Logo) bool { return l.File == file })
	if at < 0 {
		return missing
	}
	l := all[i].Logos[at]
	h := w.Header()
	h.Set("Content-Type", l.Type)
	h.Set("Cache-Control", "private, max-age=3600")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox") // a drawing can hold scripts
	_, _ = w.Write(l.Data)                                                                     // the reader has gone: nobody is left to tell
	return nil
}
