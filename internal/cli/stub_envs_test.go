package cli_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// stubEnvironments plays the service's environments: one of alice's, by its digest and name, and one that bob shares
// with her.
type stubEnvironments struct {
	one     hubapi.Environment
	details hubapi.EnvironmentDetails
	diff    hubapi.EnvironmentDiff
	check   hubapi.EnvironmentCheck
	usage   hubapi.EnvironmentUsage

	mu   sync.Mutex
	gone []string // names that were removed
}

// recent is the example, as young as a list shows it.
func (s *stubEnvironments) recent() hubapi.Environment {
	e := s.one
	e.Created, e.Used = recently(), recently()
	return e
}

// theirs is one of bob's that was frozen a moment ago, so that it is not known yet what is in it.
func (s *stubEnvironments) theirs() hubapi.Environment {
	return hubapi.Environment{
		Digest: "sha256:" + strings.Repeat("5", 64), Owner: "bob", Name: "fit", Tag: "v2\x1b[31m", Created: recently(), Used: recently(), Size: 5_600_000_000,
		Own: 441, Base: "slipway/cuda:1", Share: hubapi.Share{With: "public"},
	}
}

// earlier is alice's environment of the same name and another tag.
func (s *stubEnvironments) earlier() hubapi.Environment {
	e := s.diff.Old
	e.Created, e.Used, e.Own, e.Moved = recently(), recently(), 120_000_000, false
	return e
}

func (s *stubEnvironments) list(user bool, shared bool) hubapi.Environments {
	list := []hubapi.Environment{}
	if user {
		old := s.earlier()
		old.Name, old.Tag, old.Moved = "old", "v1", true
		list = append(list, s.recent(), s.earlier(), old)
	}
	if user && shared {
		list = append(list, s.theirs())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return hubapi.Environments{Environments: slices.DeleteFunc(list, func(e hubapi.Environment) bool { return slices.Contains(s.gone, e.Name+":"+e.Tag) })}
}

func (s *stubEnvironments) routes(mux *http.ServeMux, mine bool) {
	const api = hubapi.Base + "/environments"
	known := []string{s.one.Digest, "9f86d081", s.one.Name, s.one.Name + ":v0", s.one.Name + ":" + s.one.Tag}
	one := func(pattern string, serve func(w http.ResponseWriter, r *http.Request)) {
		method, rest, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+api+"/{ref}"+rest, func(w http.ResponseWriter, r *http.Request) {
			if ref := r.PathValue("ref"); !mine || !slices.Contains(known, ref) {
				refuse(w, 404, "not_found", "there is no environment "+ref, "`slipway envs` lists yours")
				return
			}
			serve(w, r)
		})
	}
	mux.HandleFunc("GET "+api, func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.list(mine, r.URL.Query().Get("shared") == "true"))
	})
	one("GET ", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.one) })
	one("GET /details", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.details) })
	one("GET /history", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, hubapi.Environments{Environments: []hubapi.Environment{s.one, s.diff.Old}})
	})
	one("GET /diff", s.compare)
	one("GET /sbom", func(w http.ResponseWriter, _ *http.Request) { answer(w, json.RawMessage(`{"spdxVersion":"SPDX-2.3"}`)) })
	one("POST /verify", s.verify)
	one("POST /tags", s.tag)
	one("POST /share", s.share)
	one("DELETE ", s.remove)
	mux.HandleFunc("GET "+hubapi.Base+"/environment-usage", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.usage) })
	mux.HandleFunc("POST "+hubapi.Base+"/environment-sweep", func(w http.ResponseWriter, r *http.Request) { s.sweep(w, r, mine) })
}

// compare finds nothing between the environment and itself.
func (s *stubEnvironments) compare(w http.ResponseWriter, r *http.Request) {
	d := s.diff
	if r.URL.Query().Get("from") == s.one.Digest {
		d.Old, d.Lines, d.Full = s.one, []string{}, json.RawMessage(`{"files":{"added":0,"removed":0,"changed":0,"bytes":0}}`)
	}
	answer(w, d)
}

// verify finds nothing wrong with the environment, but that its earlier state is not its session's any more.
func (s *stubEnvironments) verify(w http.ResponseWriter, r *http.Request) {
	c := s.check
	switch r.PathValue("ref") {
	case s.one.Name + ":v0":
		c.Tree.Differences, c.Tree.First = 3, []string{"/opt/env/a.py: content", "/opt/env/b.py: mode 0644, 0600 in the session"}
	case "9f86d081":
		c.Tree.Changed, c.Tree.Why, c.Tree.Differences, c.Tree.First = true, "the session has changed", 1, []string{"/opt/env/later: a file in the session"}
	case s.one.Digest:
		c.Signers, c.Statements, c.Tree = []string{}, []hubapi.Statement{}, hubapi.TreeCheck{Why: "its session is gone", First: []string{}}
	}
	answer(w, c)
}

func (s *stubEnvironments) tag(w http.ResponseWriter, r *http.Request) {
	var req hubapi.TagRequest
	_ = json.NewDecoder(r.Body).Decode(&req)
	if req.Name == "" || strings.Contains(req.Name, "/") {
		refuse(w, 422, "invalid", `name: "`+req.Name+`" is not valid`, "give the new name, such as ana or ana:v2")
		return
	}
	e := s.one
	e.Name, e.Tag = req.Name, req.Tag
	answer(w, e)
}

func (s *stubEnvironments) share(w http.ResponseWriter, r *http.Request) {
	e := s.one
	_ = json.NewDecoder(r.Body).Decode(&e.Share)
	if e.Share.With == "group" && e.Share.Group != "higgs" {
		refuse(w, 422, "invalid", `group: "`+e.Share.Group+`" is not valid`, "one of yours: higgs")
		return
	}
	answer(w, e)
}

// remove takes a name with its tag away; without one, that of the example.
func (s *stubEnvironments) remove(w http.ResponseWriter, r *http.Request) {
	ref := r.PathValue("ref")
	out := hubapi.Removed{Digest: s.diff.Old.Digest, Names: []string{"old:v1"}}
	if ref != s.one.Name+":v0" {
		ref, out = s.one.Name+":"+s.one.Tag, hubapi.Removed{Digest: s.one.Digest, Names: []string{}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, ref)
	answer(w, out)
}

func (s *stubEnvironments) sweep(w http.ResponseWriter, r *http.Request, administrator bool) {
	if !administrator {
		refuse(w, 403, "forbidden", "only administrators sweep environments", "`slipway envs rm` removes yours")
		return
	}
	answer(w, hubapi.Swept{
		Environments: []string{s.diff.Old.Digest}, Bases: []string{}, Bytes: 120_000_000, Dry: r.URL.Query().Get("dry") == "true",
		Files:   []hubapi.SweptFile{{Digest: s.diff.Old.Digest, What: "environment", Bytes: 120_000_000, Made: recently()}},
		Waiting: hubapi.SweptLater{Environments: 2, Bytes: 1_300_000_000, Until: time.Date(2026, 11, 20, 10, 19, 0, 0, time.UTC)},
	})
}

// freeze finds a secret unless it may be there, and else that nothing has changed, but for what gets a name of its own.
func (s *stubEnvironments) freeze(w http.ResponseWriter, r *http.Request) {
	var req hubapi.FreezeRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Tag != "" && req.Name == "" {
		event(w, hubapi.EventError, json.RawMessage(`{"error":{"code":"invalid","message":"a tag without a name","field":"tag","remedy":"give the name too"}}`))
		return
	}
	event(w, hubapi.EventProgress, hubapi.Progress{Stage: "scanning", Percent: 100, Files: 1204, Bytes: 88_412_160, Message: "scanning the environment"})
	for files := range int64(3) {
		event(w, hubapi.EventProgress, hubapi.Progress{Stage: "packing", Percent: 50, Files: 602 * files, Bytes: 44_206_080 * files, Message: "packing the environment"})
	}
	if req.Name == "leaky" && len(req.Allow) < 2 {
		event(w, hubapi.EventError, hubapi.ErrorBody{Error: hubapi.ErrorDetail{
			Code: "conflict", Remedy: "delete it, or let it be published with slipway freeze --allow-secret PATH, which is recorded",
			Message: "freeze s-1: nothing was frozen: 2 files hold secrets",
			Details: []errs.Detail{{Path: "/opt/env/id_rsa", Line: 3, What: "a private key"}, {Path: "/opt/a; b", What: "a token of GitHub"}},
		}})
		return
	}
	e := s.one
	e.Unchanged = req.Name == ""
	if req.Name == "analysis" {
		e.Tag = req.Tag
	}
	if req.Name == "leaky" {
		e.Secrets = req.Allow
	}
	if req.Name != "" {
		e.Warnings = []string{"your environments take 9.6 GB of the 10.0 GB that you may use (96 %)"}
	}
	event(w, hubapi.EventDone, e)
}
