// Package webui has the pages that people see: the form of the Hub's spawn page, and what the session proxy says when there is
// no session to show. All of it works without scripts, by keyboard and in the dark; all text in it is escaped.
package webui

import (
	"bytes"
	"embed"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"

	"slipway/internal/memsize"
	"slipway/spawner"
)

//go:embed templates
var files embed.FS

// form is what the spawn form shows.
type form struct {
	Profiles []profile
	Images   []spawner.ImageChoice
	MaxCPUs  float64
	Sizes    []string // of memory
}

type profile struct {
	spawner.Profile
	ImageTitles []string
	Limits      string
}

// SpawnForm writes the form fragment with the fields profile, image, cpus and memory. The Hub's page puts it into a form of its
// own. An empty field means the profile's default.
func SpawnForm(w io.Writer, c spawner.Catalogue) error {
	f := form{Images: c.Images}
	most := int64(0)
	for _, p := range c.Profiles {
		shown := profile{Profile: p, Limits: limits(p)}
		for _, name := range p.Images {
			if i, ok := c.Image(name); ok {
				shown.ImageTitles = append(shown.ImageTitles, title(i))
			}
		}
		if shown.Title == "" {
			shown.Title = p.Name
		}
		f.Profiles = append(f.Profiles, shown)
		f.MaxCPUs, most = max(f.MaxCPUs, p.MostCPUs()), max(most, p.MostMemory())
	}
	f.Sizes = sizes(most)
	return page("form.html", w, f)
}

func title(i spawner.ImageChoice) string {
	if i.Title == "" {
		return i.Name
	}
	return i.Title
}

// limits says in words what a profile gives.
func limits(p spawner.Profile) string {
	cpus, memory := number(p.CPUs)+" CPU", memsize.Format(p.Memory)+"iB of memory"
	if p.MostCPUs() > p.CPUs {
		cpus += " (at most " + number(p.MostCPUs()) + ")"
	}
	if p.MostMemory() > p.Memory {
		memory += " (at most " + memsize.Format(p.MostMemory()) + "iB)"
	}
	return cpus + ", " + memory
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// sizes are the amounts of memory to choose from: powers of two, and the most that there is.
func sizes(most int64) []string {
	var out []string
	for n := int64(512 << 20); n < most; n *= 2 {
		out = append(out, memsize.Format(n))
	}
	if most > 0 {
		out = append(out, memsize.Format(most))
	}
	return out
}

// page fills a template.
func page(name string, w io.Writer, data any) error {
	t, err := template.New(name).Funcs(template.FuncMap{"title": title}).ParseFS(files, "templates/"+name)
	if err != nil {
		return err
	}
	return t.Execute(w, data)
}

// notice is a page that says why there is nothing else.
type notice struct {
	Status       int
	Title, Text  string
	Next         string // what to do
	RefreshAfter int    // seconds until the page asks again; 0: never
}

// NoSession answers for a path that no session has.
func NoSession(w http.ResponseWriter, r *http.Request) {
	answer(w, r, notice{Status: http.StatusNotFound, Title: "No session here",
		Text: "No running session has this address.", Next: "Start your server on the Hub's home page."})
}

// NotUp answers for a session that cannot be reached at the moment; state says why.
func NotUp(w http.ResponseWriter, r *http.Request, state string) {
	w.Header().Set("Retry-After", "2")
	answer(w, r, notice{Status: http.StatusServiceUnavailable, Title: "Not ready yet",
		Text: "The session is " + state + ".", Next: "This page asks again by itself.", RefreshAfter: 2})
}

// Gone answers for a session that broke off.
func Gone(w http.ResponseWriter, r *http.Request) {
	answer(w, r, notice{Status: http.StatusBadGateway, Title: "The session has not answered",
		Text: "The connection to the program in the session was lost before it answered.",
		Next: "Try again. If it stays so, stop the server on the Hub's home page and start it again: its changes are kept."})
}

// answer writes a page to a browser, and one line to all else.
func answer(w http.ResponseWriter, r *http.Request, n notice) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if !wantsPage(r) {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(n.Status)
		_, _ = io.WriteString(w, n.Text+" "+n.Next+"\n")
		return
	}
	var b bytes.Buffer
	if err := page("notice.html", &b, n); err != nil {
		http.Error(w, n.Text, n.Status)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.WriteHeader(n.Status)
	_, _ = b.WriteTo(w)
}

// wantsPage reports whether a person is looking: programs, the Hub's probe among them, get plain text.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}
