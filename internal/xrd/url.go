package xrd

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/internal/errs"
)

// Use is what somebody wants to do with a file.
type Use struct {
	Write  bool
	Direct bool // past the cache
}

// Place is where a file is for one use, now.
type Place struct {
	URL     string
	Element string
	Path    string // on the server
	Origin  string // the URL at the origin, for when the cache of URL goes away meanwhile
	Cached  bool   // URL is the cache's
	Why     string // of one that was not cached though there is a cache; empty: it was asked for so
}

// longest is the longest path that servers take.
const longest = 1024

// URL returns the URL for a use of what a user calls by name: ELEMENT:PATH, a path on an element's server, a path below
// Root as sessions see it, or a URL of an element's server.
func (s *Storage) URL(name string, use Use) (Place, error) {
	e, at, err := s.locate(name)
	if err != nil {
		return Place{}, err
	}
	if use.Write && !e.Write {
		return Place{}, errs.New(errs.Forbidden, "nothing is written to %s here", e.Name).With("write to another storage element; `slipway data` lists them")
	}
	p := Place{URL: e.Origin + "/" + at, Element: e.Name, Path: at, Origin: e.Origin + "/" + at}
	if use.Write || use.Direct || e.Cache == "" {
		return p, nil
	}
	if state := s.Cache(e); state.Up {
		p.URL, p.Cached = e.Cache+"/"+at, true
	} else {
		p.Why = "the cache does not answer"
		if state.Trouble != "" {
			p.Why += ": " + state.Trouble
		}
	}
	return p, nil
}

// locate finds the element of a name, and the path on its server.
func (s *Storage) locate(name string) (Element, string, error) {
	if err := valid(name); err != nil {
		return Element{}, "", err
	}
	if scheme, rest, found := strings.Cut(name, "://"); found {
		return s.byURL(name, scheme, rest)
	}
	if short, rest, found := strings.Cut(name, ":"); found && !strings.Contains(short, "/") {
		return s.within(name, short, rest)
	}
	if name == Root || strings.HasPrefix(name, Root+"/") {
		short, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, Root), "/"), "/")
		return s.within(name, strings.TrimSuffix(short, CachedSuffix), rest)
	}
	return s.byPath(name)
}

// within returns the path of what lies at rest in an element.
func (s *Storage) within(name, short, rest string) (Element, string, error) {
	i := slices.IndexFunc(s.cfg.Elements, func(e Element) bool { return e.Name == short })
	if i < 0 {
		return Element{}, "", unknown("there is no storage element "+short, s.known())
	}
	e := s.cfg.Elements[i]
	at, err := clean(name, "/"+strings.TrimPrefix(rest, "/"))
	return e, path.Join(e.Path, at), err
}

// byPath finds the element with the deepest directory that holds a path.
func (s *Storage) byPath(name string) (Element, string, error) {
	if !strings.HasPrefix(name, "/") {
		return Element{}, "", unusable(
			name, "begin with a slash, or with a storage element's name and a colon; "+s.known(),
		)
	}
	at, err := clean(name, name)
	if err != nil {
		return Element{}, "", err
	}
	var best []Element
	for _, e := range s.cfg.Elements {
		switch {
		case !below(at, e.Path):
		case len(best) == 0 || len(e.Path) > len(best[0].Path):
			best = []Element{e}
		case len(e.Path) == len(best[0].Path):
			best = append(best, e)
		}
	}
	switch len(best) {
	case 1:
		return best[0], at, nil
	case 0:
		return Element{}, "", unknown(name+" is in no storage element", s.known())
	default:
		rest := strings.TrimPrefix(strings.TrimPrefix(at, best[0].Path), "/")
		return Element{}, "", unusable(
			name, "several storage elements have that path: say "+best[0].Name+":"+rest+" or "+best[1].Name+":"+rest,
		)
	}
}

// byURL takes a URL of an element's origin or cache for the file that it names.
func (s *Storage) byURL(name, scheme, rest string) (Element, string, error) {
	host, at, _ := strings.Cut(rest, "/")
	at, err := clean(name, "/"+strings.TrimPrefix(at, "/"))
	if err != nil {
		return Element{}, "", err
	}
	var best *Element
	for _, e := range s.cfg.Elements {
		server := scheme + "://" + host
		if (server == e.Origin || server == e.Cache) && below(at, e.Path) && (best == nil ||
			len(e.Path) > len(best.Path)) {
			best = &e
		}
	}
	if best == nil {
		return Element{}, "", unknown(name+" is at no storage element", s.known())
	}
	return *best, at, nil
}

func (s *Storage) known() string {
	if len(s.cfg.Elements) == 0 {
		return "this site has none: the administrator sets data.storage in the configuration"
	}
	var all []string
	for _, e := range s.cfg.Elements {
		all = append(all, e.Name+" ("+e.Path+")")
	}
	return "there are " + strings.Join(all, ", ")
}

// unusable is the error of a file's name that says nothing, or too much.
func unusable(name, remedy string) error {
	e := errs.Bad("lfn", name, remedy)
	e.Message = fmt.Sprintf("%q is no file's name here", name)
	return e
}

// unknown is the error of a file's name that leads nowhere.
func unknown(what, remedy string) error {
	return &errs.Error{Kind: errs.Invalid, Field: "lfn", Message: what, Remedy: remedy}
}

func below(at, dir string) bool { return at == dir || dir == "/" || strings.HasPrefix(at, dir+"/") }

// valid refuses names in which something could hide.
func valid(name string) error {
	switch {
	case name == "":
		return unusable(name, "name a file, such as eos:run7/events.root")
	case len(name) > longest:
		return unusable(name[:60]+"...", "a name of at most 1024 bytes")
	case !utf8.ValidString(name):
		return unusable(name, "a name in UTF-8")
	case strings.ContainsRune(name, '?'):
		return unusable(
			before(name), "leave out the question mark and what follows it: servers would take it for parameters",
		)
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == '#' }):
		return unusable(
			name, "leave out control characters, \\ and #: XRootD's clients do not take them for parts of a name",
		)
	}
	return nil
}

// before leaves out of a name what may be a token.
func before(name string) string {
	start, _, _ := strings.Cut(name, "?")
	return start + "?..."
}

// clean returns a path without a slash at its end, and refuses one that says something in a way that could mean another
// file.
func clean(name, p string) (string, error) {
	trimmed := strings.TrimSuffix(p, "/")
	if trimmed == "" {
		return "/", nil
	}
	if path.Clean(trimmed) != trimmed {
		return "", unusable(name, "leave out //, . and ..")
	}
	return trimmed, nil
}
