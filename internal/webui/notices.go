package webui

import (
	"io"
	"net/http"
	"strings"
)

// Notice is a page that says why there is nothing else.
type Notice struct {
	Status       int
	Title, Text  string
	Next         string // what to do
	Link, Label  string // where to go on; empty: nowhere
	RefreshAfter int    // seconds until the page asks again; 0: never
}

// NoSession answers for a path that no session has. server: the path is one of a server of a Hub. pages is where its
// user finds her sessions; empty where there are no such pages.
func NoSession(w http.ResponseWriter, r *http.Request, server bool, pages string) {
	n := Notice{Status: http.StatusNotFound, Title: "No session here", Text: "No session runs at this address: it was stopped, or it has ended.",
		Next: "Start your server on the Hub's home page."}
	switch page := wantsPage(r); {
	case server && !page:
		n.Status = http.StatusFailedDependency // as the Hub has it: JupyterLab says then that its server does not run
	case page && pages != "":
		n.Next, n.Link, n.Label = "The page of your sessions says why, and starts it again. What you changed is kept.", pages, "My sessions"
	}
	Tell(w, r, n)
}

// HelpPage answers with the first hour of a user.
func HelpPage(w http.ResponseWriter, v Visit) error {
	return write(w, http.StatusOK, "help.html", frame{Title: "Help", Visit: v})
}

// NotUp answers for a session that cannot be reached at the moment; state says why.
func NotUp(w http.ResponseWriter, r *http.Request, state string) {
	w.Header().Set("Retry-After", "2")
	Tell(w, r, Notice{Status: http.StatusServiceUnavailable, Title: "Not ready yet",
		Text: "The session is " + state + ".", Next: "This page asks again by itself.", RefreshAfter: 2})
}

// Gone answers for a session that broke off.
func Gone(w http.ResponseWriter, r *http.Request) {
	Tell(w, r, Notice{Status: http.StatusBadGateway, Title: "The session has not answered",
		Text: "The connection to the program in the session was lost before it answered.",
		Next: "Try again. If it stays so, stop the server on the Hub's home page and start it again: its changes are kept."})
}

// Tell answers a browser with a page, and all else with one line.
func Tell(w http.ResponseWriter, r *http.Request, n Notice) {
	if !wantsPage(r) || write(w, n.Status, "notice.html", frame{Title: n.Title, Refresh: n.RefreshAfter, Body: n}) != nil {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(n.Status)
		_, _ = io.WriteString(w, n.Text+" "+n.Next+"\n")
	}
}

// wantsPage reports whether a person is looking: programs, the Hub's probe among them, get plain text.
func wantsPage(r *http.Request) bool {
	asks := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodPost
	return asks && strings.Contains(r.Header.Get("Accept"), "text/html")
}
