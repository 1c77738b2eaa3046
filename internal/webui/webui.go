// Package webui has the pages that people see: the form of the Hub's spawn page, the pages of sessions and jobs, and
// what the session proxy says when there is no session to show. It only shows: who may see what is decided before.
//
// The package promises that all of it works without scripts, by keyboard, in the dark and on a phone; that all text in
// it is escaped; and that its pages ask no other host for anything.
package webui

import (
	"bytes"
	"crypto/rand"
	"embed"
	"html/template"
	"io"
	"net/http"

	"slipway/internal/units"
)

//go:embed templates
var files embed.FS

// fragment fills a template that is a part of somebody else's page.
func fragment(name string, w io.Writer, data any) error {
	t, err := load(name, "templates/"+name)
	if err != nil {
		return err
	}
	return t.Execute(w, data)
}

func load(name string, paths ...string) (*template.Template, error) {
	return template.New(name).Funcs(template.FuncMap{
		"clock": clock, "counted": counted, "machine": machine, "moment": moment, "second": second,
		"memory": units.MemoryWords,
		"prose":  prose, "size": units.DiskWords, "span": span,
	}).ParseFS(files, paths...)
}

// frame is what every page has around its own matter.
type frame struct {
	Title   string
	Nonce   string // of its style and script: nothing else runs
	Refresh int    // seconds until a browser without scripts asks again; 0: never
	Script  bool
	Visit   Visit
	Body    any
}

// write answers with a page of the template named.
func write(w http.ResponseWriter, status int, name string, f frame) error {
	f.Nonce = rand.Text()
	t, err := load(
		"layout.html", "templates/layout.html", "templates/actions.html", "templates/gpu.html", "templates/"+name,
	)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, f); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	// A page of another user's server, which has the Hub's origin too, must not get hold of this one as its opener.
	h.Set("Cross-Origin-Opener-Policy", "noopener-allow-popups")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+f.Nonce+"'; script-src 'nonce-"+f.Nonce+
		"'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w)
	return nil
}
