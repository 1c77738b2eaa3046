package webui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"slipway/hubapi"
	"slipway/spawner"
)

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

// environment is one of the user's own, two days old.
func environment(c, name, base string) hubapi.Environment {
	return hubapi.Environment{Digest: digest(c), Name: name, Tag: "v1", Mine: true, Owner: "alice", Base: base, Size: 3 << 30, Known: true, Packages: 143,
		Python: "3.13.5", Created: time.Now().Add(-50 * time.Hour), Note: `with <uproot>`}
}

func startable() []hubapi.Environment {
	shared := environment("b", "theirs", "y")
	shared.Mine, shared.Owner, shared.Known, shared.Packages, shared.Python = false, "carol", false, 0, ""
	moved := environment("c", "ana", "x")
	moved.Moved = true
	again := environment("a", "fit", "x") // a name that it has lost, beside one that it has
	again.Moved = true
	return []hubapi.Environment{environment("a", "ana", "x"), shared, moved, again, environment("d", "stranded", "gone")}
}

// origin is what the form shows of one environment.
type shownOrigin struct{ Group, Value, Images, Title string }

func shownOrigins(t *testing.T, f Form) (list []shownOrigin, chosen string, form string) {
	t.Helper()
	doc := formOf(t, f)
	for _, s := range all(doc, "select") {
		if attr(s, "name") != "environment" {
			continue
		}
		for _, o := range all(s, "option") {
			list = append(list, shownOrigin{attr(o.Parent, "label"), attr(o, "value"), attr(o, "data-images"), text(o)})
			if has(o, "selected") {
				chosen += attr(o, "value")
			}
		}
	}
	return list, chosen, text(doc)
}

func TestFormOffersEnvironments(t *testing.T) {
	got, chosen, words := shownOrigins(t, Form{Catalogue: catalogue(), Environments: startable()})
	want := []shownOrigin{
		{"", "", "", "The image as it is"},
		{"Your environments", digest("a"), `["notebook"]`, "ana:v1 · Python 3.13.5 · 143 packages · 3.2 GB · 2 days ago"},
		{"Your environments", digest("c"), `["notebook"]`, "cccccccccccc (was ana:v1) · Python 3.13.5 · 143 packages · 3.2 GB · 2 days ago"},
		{"Shared with you", digest("b"), `["root"]`, "carol/theirs:v1 · 3.2 GB · 2 days ago"},
	}
	if diff := cmp.Diff(want, got); diff != "" || chosen != "" {
		t.Error(chosen, diff)
	}
	if !strings.Contains(words, "1 more stand on images that are not offered any more.") {
		t.Error("nothing is said of what cannot be started")
	}
	if got, _, words := shownOrigins(t, Form{Catalogue: catalogue()}); len(got) > 0 || strings.Contains(words, "Start from") {
		t.Error("something is offered where there is nothing")
	}
}

func TestFormRemembersTheEnvironment(t *testing.T) {
	big := `big" onclick="x`
	for name, tc := range map[string]struct {
		options map[string]any
		chosen  string
		note    string
	}{
		"it is there":                   {map[string]any{"environment": digest("a")}, digest("a"), ""},
		"with its image":                {map[string]any{"environment": digest("b"), "profile": big, "image": "root"}, digest("b"), ""},
		"removed":                       {map[string]any{"environment": digest("e")}, "", "environment eeeeeeeeeeee, is not offered any more"},
		"a name that means nothing":     {map[string]any{"environment": "<b>old</b>:v7"}, "", "environment <b>old</b>:v7, is not offered any more"},
		"its image is gone":             {map[string]any{"environment": digest("d")}, "", "environment stranded:v1, does not go with"},
		"the profile has not its image": {map[string]any{"environment": digest("b"), "profile": "small"}, "", "environment carol/theirs:v1, does not go with"},
		"nonsense":                      {map[string]any{"environment": []any{1}}, "", ""},
	} {
		_, chosen, words := shownOrigins(t, Form{Catalogue: catalogue(), Environments: startable(), Chosen: tc.options})
		said := strings.Contains(words, "Your last choice, to start from")
		if chosen != tc.chosen || said != (tc.note != "") || !strings.Contains(words, tc.note) {
			t.Errorf("%s: chosen %q, %s", name, chosen, words)
		}
	}
}

func TestFormOfManyEnvironments(t *testing.T) {
	var many []hubapi.Environment
	for i := range originsShown + 30 {
		many = append(many, environment("a", strings.Repeat("n", 1+i%20), "x"))
	}
	last := environment("f", "last", "x")
	f := Form{Catalogue: catalogue(), Environments: append(many, last), Chosen: map[string]any{"environment": digest("f")}}
	list, chosen, words := shownOrigins(t, f)
	if len(list) != 1+originsShown+1 || chosen != digest("f") || !strings.Contains(words, "30 older ones are not in the list") {
		t.Errorf("%d shown, chosen %s: %s", len(list), chosen, words)
	}
	search := false
	for _, in := range all(formOf(t, f), "input") {
		search = search || attr(in, "type") == "search" && attr(in, "name") == "" && has(in, "hidden") && attr(in, "aria-label") != ""
	}
	if !search {
		t.Error("nothing to search in a long list, or it is there without scripts")
	}
}

func TestFormSaysWhatKeptChangesAreOver(t *testing.T) {
	kept := session(spawner.Stopped)
	kept.Spec.Environment = digest("a")
	doc := formOf(t, Form{Catalogue: catalogue(), Environments: startable(), Kept: []spawner.Workload{kept}})
	if !slices.ContainsFunc(all(doc, "small"), func(n *html.Node) bool {
		return strings.Contains(text(n), "Python <3> with environment ana:v1, last used") && strings.Contains(text(n), "this image and environment unless")
	}) {
		t.Error(text(doc))
	}
}
