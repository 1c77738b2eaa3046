package webui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"slipway/hubapi"
)

// EnvironmentsView is what the page of the environments is made of.
type EnvironmentsView struct {
	Environments []hubapi.Environment // the visitor's, and those that are shared with her, the newest first
	Usage        hubapi.EnvironmentUsage
	Find         string // words by which everybody's are looked for; empty: those are not shown
}

// environmentRow is one environment as the pages show it.
type environmentRow struct {
	hubapi.Environment
	Visit Visit
	Back  string // as in row: these forms send none
}

// Title is how people call it.
func (e environmentRow) Title() string { return EnvironmentName(e.Environment) }

// Short is of its digest what people compare.
func (e environmentRow) Short() string { return ShortDigest(e.Digest) }

// Ref names it and no other one: its tag, where it has one of its own.
func (e environmentRow) Ref() string { return EnvironmentRef(e.Environment) }

// Page is the path of its own page.
func (e environmentRow) Page() string { return environmentPage(e.Visit, e.Ref()) }

// Session is the path of the page of the session that it was frozen from; empty where that is not known.
func (e environmentRow) SessionPage() string {
	if e.Session == "" {
		return ""
	}
	return e.Visit.Prefix + "sessions/" + url.PathEscape(e.Session)
}

// SharedWith says in words who may use it.
func (e environmentRow) SharedWith() string {
	switch e.Share.With {
	case "group":
		return "group " + e.Share.Group
	case "public":
		return "everybody"
	default:
		return "nobody"
	}
}

// Pause is how long its freeze held the session still, in milliseconds; zero where that is not known.
func (e environmentRow) Pause() int { return int(e.Paused*1000 + .5) }

// EnvironmentRef names an environment for a request: by its name and tag where it has both and they are no newer one's,
// else by its digest.
func EnvironmentRef(e hubapi.Environment) string {
	if e.Name == "" || e.Tag == "" || e.Moved {
		return e.Digest
	}
	return EnvironmentName(e)
}

// environmentPage is the path of the page of an environment.
func environmentPage(v Visit, ref string) string {
	return v.Prefix + "environments/" + url.PathEscape(ref)
}

func environmentRows(v Visit, list []hubapi.Environment) []environmentRow {
	out := make([]environmentRow, 0, len(list))
	for _, e := range list {
		out = append(out, environmentRow{Environment: e, Visit: v})
	}
	return out
}

type environmentsBody struct {
	Mine, Shared []environmentRow
	Public       []environmentRow // of others, that have the words looked for
	Publics      int              // of others in all
	Find         string
	Usage        hubapi.EnvironmentUsage
}

// publicShown bounds the list of what was found.
const publicShown = 30

// has reports whether an environment has all words, in its name, its owner, its note, its base or its digest.
func (e environmentRow) has(words string) bool {
	text := strings.ToLower(strings.Join([]string{e.Title(), e.Owner, e.Note, e.Base, e.Digest}, " "))
	for _, word := range strings.Fields(strings.ToLower(words)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// FileName returns the name that an environment's image has on a user's own disk.
func FileName(e hubapi.Environment) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/\\:*?\"<>| ", r) {
			return '-'
		}
		return r
	}, cmp.Or(strings.TrimSuffix(e.Name+":"+e.Tag, ":"), ShortDigest(e.Digest)))
	return name + ".sif"
}

// EnvironmentsPage answers with the visitor's environments and those that are shared with her.
func EnvironmentsPage(w http.ResponseWriter, v Visit, view EnvironmentsView) error {
	body := environmentsBody{Usage: view.Usage, Find: view.Find}
	for _, e := range environmentRows(v, view.Environments) {
		switch {
		case e.Mine:
			body.Mine = append(body.Mine, e)
		case e.Share.With != "public":
			body.Shared = append(body.Shared, e)
		default:
			body.Publics++
			if view.Find != "" && len(body.Public) < publicShown && e.has(view.Find) {
				body.Public = append(body.Public, e)
			}
		}
	}
	return write(
		w, http.StatusOK, "environments.html",
		frame{Title: "Environments", Refresh: 30, Script: true, Visit: v, Body: body},
	)
}

// EnvironmentView is what the page of one environment is made of.
type EnvironmentView struct {
	hubapi.EnvironmentDetails
	History []hubapi.Environment // of its name and session, the newest first; empty for somebody else's
	Groups  []string             // of the visitor, with which it can be shared
	Others  []hubapi.Environment // with which it can be compared, it may be among them
}

type environmentBody struct {
	environmentRow
	Details hubapi.EnvironmentDetails
	Inside  inside
	History []step
	Groups  []string
	Others  []environmentRow // with which it can be compared
}

// comparedMost bounds the choice of others.
const comparedMost = 100

// comparable returns the others with which an environment can be compared: the visitor's own first.
func (v EnvironmentView) comparable(visit Visit) (out []environmentRow) {
	seen := map[string]bool{v.Digest: true}
	for _, mine := range []bool{true, false} {
		for _, e := range environmentRows(visit, v.Others) {
			if e.Mine == mine && !seen[e.Digest] && len(out) < comparedMost {
				seen[e.Digest] = true
				out = append(out, e)
			}
		}
	}
	return out
}

// step is one environment in a history.
type step struct {
	environmentRow
	Here   bool
	Before string // the digest of the one before it; empty: it is the first
}

// Compare is the path of the page that compares it with the one before.
func (s step) Compare() string {
	return environmentPage(s.Visit, s.Digest) + "/diff?from=" + url.QueryEscape(s.Before)
}

// Previous is the step of the environment itself, if another one was before it.
func (b environmentBody) Previous() *step {
	i := slices.IndexFunc(b.History, func(s step) bool { return s.Here && s.Before != "" })
	if i < 0 {
		return nil
	}
	return &b.History[i]
}

// EnvironmentPage answers with all that is known of one environment.
func EnvironmentPage(w http.ResponseWriter, v Visit, view EnvironmentView) error {
	e := environmentRow{Environment: view.Environment, Visit: v}
	body := environmentBody{
		environmentRow: e, Details: view.EnvironmentDetails, Inside: readInside(view.Inventory),
		History: steps(v, view), Others: view.comparable(v),
	}
	body.Groups = view.groups()
	f := frame{Title: "Environment " + e.Title(), Script: true, Visit: v, Body: body}
	if !e.Known || e.Imports != nil && e.Imports.State == hubapi.ImportsWaiting && len(e.Imports.Lines) == 0 {
		f.Refresh = 5 // it is being looked at
	}
	return write(w, http.StatusOK, "environment.html", f)
}

// groups are those with which it can be shared, and the one with which it is.
func (v EnvironmentView) groups() []string {
	out := slices.Clone(v.Groups)
	if v.Share.Group != "" && !slices.Contains(out, v.Share.Group) {
		out = append(out, v.Share.Group)
	}
	return out
}

// AlsoNamed are the further names that lead to it.
func (b environmentBody) AlsoNamed() []string {
	this := strings.TrimSuffix(b.Name+":"+b.Tag, ":")
	return slices.DeleteFunc(slices.Clone(b.Details.Names), func(name string) bool { return name == this && !b.Moved })
}

func steps(v Visit, view EnvironmentView) (out []step) {
	for i, e := range view.History {
		s := step{
			environmentRow: environmentRow{Environment: e, Visit: v},
			Here:           e.Digest == view.Digest && e.Name == view.Name && e.Tag == view.Tag,
		}
		for _, earlier := range view.History[i+1:] {
			if earlier.Digest != e.Digest {
				s.Before = earlier.Digest
				break
			}
		}
		out = append(out, s)
	}
	return out
}

// RemoveEnvironment asks whether a name of an environment is really to be taken away.
func RemoveEnvironment(w http.ResponseWriter, v Visit, e hubapi.Environment) error {
	r := environmentRow{Environment: e, Visit: v}
	return write(
		w, http.StatusOK, "environment-remove.html", frame{Title: "Remove " + r.Title() + "?", Visit: v, Body: r},
	)
}

type difference struct {
	Old, New environmentRow
	Lines    []string
}

// DifferencePage answers with what one environment has other than another.
func DifferencePage(w http.ResponseWriter, v Visit, d hubapi.EnvironmentDiff) error {
	body := difference{
		Old: environmentRow{Environment: d.Old, Visit: v}, New: environmentRow{Environment: d.New, Visit: v},
		Lines: d.Lines,
	}
	return write(w, http.StatusOK, "environment-diff.html", frame{Title: "What has changed", Visit: v, Body: body})
}
