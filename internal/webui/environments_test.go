package webui

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"slipway/hubapi"
)

// details is the example of the API's contract, with words that want to break out.
func details(t *testing.T) hubapi.EnvironmentDetails {
	t.Helper()
	b, err := os.ReadFile("../../hubapi/testdata/details.json")
	if err != nil {
		t.Fatal(err)
	}
	var d hubapi.EnvironmentDetails
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	d.Note = `<script>alert("x")</script>`
	return d
}

// shown is a page that has kept to the policy.
func shown(t *testing.T, show func(http.ResponseWriter) error) *html.Node {
	t.Helper()
	w := httptest.NewRecorder()
	if err := show(w); err != nil {
		t.Fatal(err)
	}
	doc, ids := parse(t, w.Body.String()), map[string]bool{}
	for d := range doc.Descendants() {
		for _, a := range d.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || (a.Key == "src" || a.Key == "href" || a.Key == "action") && !strings.HasPrefix(a.Val, "/b/") {
				t.Errorf("<%s %s=%q>", d.Data, a.Key, a.Val)
			}
		}
		if id := attr(d, "id"); id != "" && ids[id] {
			t.Errorf("%q is there twice", id)
		} else if id != "" {
			ids[id] = true
		}
	}
	for _, f := range all(doc, "form") {
		token := func(n *html.Node) bool { return attr(n, "name") == "token" && attr(n, "value") == "form-word" }
		// one that only asks for a page has no token, which would stand in its address
		if posts := attr(f, "method") == "post"; posts != slices.ContainsFunc(all(f, "input"), token) || !posts && attr(f, "method") != "get" {
			t.Errorf("the form %s is not protected", attr(f, "action"))
		}
	}
	labels := map[string]bool{}
	for _, l := range all(doc, "label") {
		labels[attr(l, "for")] = true
	}
	for _, n := range slices.Concat(all(doc, "input"), all(doc, "select")) {
		if attr(n, "type") != "hidden" && !labels[attr(n, "id")] {
			t.Errorf("%q has no label", attr(n, "name"))
		}
	}
	return doc
}

func keepsEnvironments() Visit {
	v := someVisit()
	v.Environments = true
	return v
}

func TestEnvironmentsPage(t *testing.T) {
	view := EnvironmentsView{Environments: startable(), Usage: hubapi.EnvironmentUsage{Environments: 3, Own: 1 << 30, Shared: 2 << 30, Quota: 50e9}}
	doc := shown(t, func(w http.ResponseWriter) error { return EnvironmentsPage(w, keepsEnvironments(), view) })
	tables := all(doc, "table")
	if len(tables) != 2 || len(all(tables[0], "tr")) != 5 || len(all(tables[1], "tr")) != 2 {
		t.Fatalf("%d tables", len(tables))
	}
	for _, words := range []string{"ana:v1", "the name leads to a newer one now", "Python 3.13.5, 143 packages", "carol/theirs:v1", "not looked at yet", "1.1 GB of their own of at most 50 GB"} {
		if !strings.Contains(text(doc), words) {
			t.Errorf("it does not say %q", words)
		}
	}
	var links []string
	for _, a := range all(doc, "a") {
		links = append(links, attr(a, "href"))
	}
	for _, link := range []string{"/b/services/slipway/environments", "/b/services/slipway/environments/ana:v1", "/b/services/slipway/environments/" + digest("c"), "/b/services/slipway/environments/carol%2Ftheirs:v1"} {
		if !slices.Contains(links, link) {
			t.Errorf("no link to %s in %q", link, links)
		}
	}
	none := shown(t, func(w http.ResponseWriter) error { return EnvironmentsPage(w, someVisit(), EnvironmentsView{}) })
	if !strings.Contains(text(none), "You have none") || len(all(none, "table")) > 0 {
		t.Error("nothing is said of having none")
	}
}

func TestEnvironmentPage(t *testing.T) {
	d := details(t)
	before := d.Environment
	before.Digest, before.Tag = digest("7"), "v0"
	again := d.Environment
	lonely := d
	lonely.Share = hubapi.Share{With: "private"}
	page := shown(t, func(w http.ResponseWriter) error {
		return EnvironmentPage(w, keepsEnvironments(), EnvironmentView{EnvironmentDetails: lonely})
	})
	if len(all(page, "select")) != 1 || strings.Contains(text(page), "a group") {
		t.Error("a group is offered to somebody who is in none")
	}
	again.Name, again.Tag = "other", "v9"
	view := EnvironmentView{EnvironmentDetails: d, Groups: []string{"top"}, History: []hubapi.Environment{d.Environment, again, before}}
	doc := shown(t, func(w http.ResponseWriter) error { return EnvironmentPage(w, keepsEnvironments(), view) })
	for _, words := range []string{
		d.Note, d.Digest, "Also named", "published", "held still for 50 ms", "2 pip packages", "1 apt package", "editable, from /opt/uproot", "access lists of 1 file.", "/opt/env/tmux.sock", "/opt/env/null",
		"homes are mounted", "/opt/env/share/test.key", "The image is signed by", "This site states: alice made it as analysis:v1", "%%grid --env analysis:v1",
	} {
		if !strings.Contains(text(doc), words) {
			t.Errorf("it does not say %q", words)
		}
	}
	var groups []string
	for _, s := range all(doc, "select") {
		for _, o := range all(s, "option") {
			if attr(s, "name") == "group" && has(o, "selected") == (attr(o, "value") == d.Share.Group) {
				groups = append(groups, attr(o, "value"))
			}
		}
	}
	if !slices.Equal(groups, []string{"top", "higgs"}) {
		t.Errorf("it can be shared with %q", groups)
	}
	compare := 0
	for _, a := range all(doc, "a") {
		if attr(a, "href") == "/b/services/slipway/environments/"+d.Digest+"/diff?from=sha256%3A"+strings.Repeat("7", 64) {
			compare++ // the button, and twice in the history: under both names
		}
	}
	if compare != 3 {
		t.Errorf("%d links compare it with the one before", compare)
	}
	if n := len(all(all(doc, "main")[0], "form")); n != 2 { // to share, and tag
		t.Errorf("%d forms", n)
	}
}

func TestEnvironmentPageOfAnothers(t *testing.T) {
	d := details(t)
	d.Mine, d.Session, d.Known, d.Inventory, d.Signers, d.Statements = false, "", false, nil, nil, nil
	doc := shown(t, func(w http.ResponseWriter) error {
		return EnvironmentPage(w, keepsEnvironments(), EnvironmentView{EnvironmentDetails: d})
	})
	if len(all(all(doc, "main")[0], "form")) != 0 || strings.Contains(text(doc), "Remove") || strings.Contains(text(doc), "History") {
		t.Error("it offers to change another's environment")
	}
	if !strings.Contains(text(doc), "It is looked at some seconds after the freeze.") || !strings.Contains(text(doc), "There are none yet") {
		t.Error(text(doc))
	}
}

func TestDifferencePage(t *testing.T) {
	d := hubapi.EnvironmentDiff{Old: environment("a", "ana", "x"), New: environment("b", "ana", "x"), Lines: []string{"+ torch 2.9.0", "- <b>scipy</b> 1.14"}}
	doc := shown(t, func(w http.ResponseWriter) error { return DifferencePage(w, keepsEnvironments(), d) })
	if pre := all(doc, "pre"); len(pre) != 1 || !strings.Contains(text(pre[0]), "+ torch 2.9.0") || !strings.Contains(text(pre[0]), "- <b>scipy</b> 1.14") {
		t.Error(text(doc))
	}
	d.Lines = nil
	if doc := shown(t, func(w http.ResponseWriter) error { return DifferencePage(w, keepsEnvironments(), d) }); !strings.Contains(text(doc), "Nothing.") {
		t.Error(text(doc))
	}
}

func TestRemoveEnvironmentAsks(t *testing.T) {
	e := environment("a", "ana", "x")
	for ref, words := range map[string]string{"ana:v1": "The name ana:v1 is taken away", digest("a"): "All names that you have given"} {
		e.Moved = ref != "ana:v1"
		doc := shown(t, func(w http.ResponseWriter) error { return RemoveEnvironment(w, keepsEnvironments(), e) })
		actions := []string{}
		for _, f := range all(doc, "form") {
			actions = append(actions, attr(f, "action"))
		}
		if !strings.Contains(text(doc), words) || !slices.Contains(actions, "/b/services/slipway/environments/"+ref+"/remove") {
			t.Errorf("%s: %q %s", ref, actions, text(doc))
		}
	}
}

func TestReadInsideOfAnything(t *testing.T) {
	for _, bad := range []string{"", "null", "[]", `{"packages":7}`, "{"} {
		if in := readInside([]byte(bad)); len(in.Managed) > 0 {
			t.Errorf("%q has packages", bad)
		}
	}
	var many hubapi.EnvironmentDetails
	many.Inventory = []byte(`{"packages":[` + strings.Repeat(`{"manager":"pip","name":"a"},`, packagesShown+4) + `{"manager":"zz","name":"a"}]}`)
	in := readInside(many.Inventory)
	if len(in.Managed) != 2 || in.Managed[0].More() != 5-1 || in.Managed[1].Count() != "1 zz package" {
		t.Errorf("%d managers, %d more", len(in.Managed), in.Managed[0].More())
	}
}

// TestWhereASessionStartedFrom is on the page of a session and of a job, with a link where there is a page to lead to.
func TestWhereASessionStartedFrom(t *testing.T) {
	w := session("running")
	w.Spec.Environment = digest("a")
	for _, v := range []Visit{someVisit(), keepsEnvironments()} {
		doc := shown(t, func(rw http.ResponseWriter) error {
			return Single(rw, v, catalogue(), Details{Item: Item{Workload: w}})
		})
		link := slices.ContainsFunc(all(doc, "a"), func(n *html.Node) bool { return attr(n, "href") == "/b/services/slipway/environments/"+digest("a") })
		if !strings.Contains(text(doc), "environment aaaaaaaaaaaa") || link != v.Environments {
			t.Errorf("link %t: %s", link, text(doc))
		}
	}
}

// TestOthersEnvironmentsAreLookedFor: what everybody may use is shown to who looks for it, and to nobody else.
func TestOthersEnvironmentsAreLookedFor(t *testing.T) {
	public := hubapi.Share{With: "public"}
	list := []hubapi.Environment{
		{Digest: digest("a"), Name: "mine", Mine: true, Share: public},
		{Digest: digest("b"), Name: "group", Owner: "carol", Share: hubapi.Share{With: "group", Group: "higgs"}},
		{Digest: digest("c"), Name: "strange", Owner: "dave", Share: public, Note: "for <Muons>"},
	}
	for find, want := range map[string]bool{"": false, "muon DAVE": true, "electron": false} {
		doc := shown(t, func(w http.ResponseWriter) error {
			return EnvironmentsPage(w, keepsEnvironments(), EnvironmentsView{Environments: list, Find: find})
		})
		if got := strings.Contains(text(doc), "strange"); got != want {
			t.Errorf("looked for %q: shown %t", find, got)
		}
		if !strings.Contains(text(doc), "mine") || !strings.Contains(text(doc), "group") {
			t.Errorf("looked for %q: hers and her group's are not shown", find)
		}
	}
}

func TestEnvironmentsCanBeCompared(t *testing.T) {
	d := details(t)
	others := []hubapi.Environment{
		{Digest: digest("b"), Name: "theirs", Owner: "carol"}, {Digest: d.Digest, Name: "itself", Mine: true},
		{Digest: digest("e"), Name: "older", Mine: true}, {Digest: digest("e"), Name: "same", Mine: true},
	}
	doc := shown(t, func(w http.ResponseWriter) error {
		return EnvironmentPage(w, keepsEnvironments(), EnvironmentView{EnvironmentDetails: d, Others: others})
	})
	var from []string
	for _, s := range all(doc, "select") {
		for _, o := range all(s, "option") {
			if attr(s, "name") == "from" {
				from = append(from, attr(o, "value"))
			}
		}
	}
	if !slices.Equal(from, []string{digest("e"), digest("b")}) {
		t.Errorf("it can be compared with %q", from)
	}
}
