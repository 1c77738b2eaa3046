package authproxy

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"

	"slipway/internal/errs"
)

// notice is a page that says why there is nothing else.
type notice struct {
	status            int
	title, text, next string
	link              string // where next leads; empty: nowhere
}

// trouble tells an error.
func (g *Proxy) trouble(w http.ResponseWriter, r *http.Request, err error) {
	n := notice{
		status: http.StatusBadGateway, title: g.cfg.Title + " cannot be reached", text: "It does not answer.",
		next: "Try again.",
	}
	if e, ok := errors.AsType[*errs.Error](err); ok {
		n.status, n.text, n.next = errs.RowOf(e.Kind).Status, sentence(e.Message), sentence(e.Remedy)
	} else if err != nil {
		g.log.Warn("a visitor could not be served", "error", err)
	}
	tell(w, r, n)
}

// sentence makes an error's words one for people.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// isPage reports whether a person is looking.
func isPage(r *http.Request) bool {
	return r.Method == http.MethodGet && !upgrades(r) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

const page = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%[1]s</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:4em auto;padding:0 1em;color:#222}h1{font-size:1.4em}</style>
</head><body><h1>%[1]s</h1><p>%[2]s</p><p>%[3]s</p></body></html>
`

// tell answers a browser with a page, and all else with a line.
func tell(w http.ResponseWriter, r *http.Request, n notice) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'")
	if !isPage(r) {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(n.status)
		_, _ = fmt.Fprintln(w, strings.TrimSpace(n.text+" "+n.next))
		return
	}
	next := html.EscapeString(n.next)
	if n.link != "" {
		next = `<a href="` + html.EscapeString(n.link) + `">` + next + `</a>`
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(n.status)
	_, _ = fmt.Fprintf(w, page, html.EscapeString(n.title), html.EscapeString(n.text), next)
}
