package webui

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"slipway/spawner"
)

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	n, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// all gives the elements of a name below n.
func all(n *html.Node, name string) (found []*html.Node) {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == name {
			found = append(found, d)
		}
	}
	return found
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func catalogue() spawner.Catalogue {
	return spawner.Catalogue{
		Images: []spawner.ImageChoice{{Name: "notebook", Title: "Python <3>", Ref: "x"}, {Name: "root", Ref: "y"}},
		Profiles: []spawner.Profile{
			{Name: "small", Title: "Small", Description: `<script>alert("x")</script>`, Images: []string{"notebook"}, CPUs: 1, MaxCPUs: 2, Memory: 2 << 30, MaxMemory: 6 << 30, Default: true},
			{Name: `big" onclick="x`, Images: []string{"root", "notebook"}, CPUs: 4, Memory: 4 << 30},
		},
	}
}

func spawnForm(t *testing.T) *html.Node {
	t.Helper()
	var b bytes.Buffer
	if err := SpawnForm(&b, Form{Catalogue: catalogue()}); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.String())
}

func TestFormHasItsFields(t *testing.T) {
	doc := spawnForm(t)
	if len(all(doc, "form")) > 0 {
		t.Error("the Hub's page has the form")
	}
	radios := []string{}
	for _, in := range all(doc, "input") {
		if attr(in, "type") == "radio" && attr(in, "name") == "profile" {
			radios = append(radios, attr(in, "value"))
			if has(in, "checked") != (attr(in, "value") == "small") {
				t.Errorf("%q: checked is %t", attr(in, "value"), has(in, "checked"))
			}
		}
	}
	if !slices.Equal(radios, []string{"small", `big" onclick="x`}) {
		t.Errorf("profiles %q", radios)
	}
	options := map[string][]string{}
	for _, s := range all(doc, "select") {
		for _, o := range all(s, "option") {
			options[attr(s, "name")] = append(options[attr(s, "name")], attr(o, "value"))
		}
	}
	if !slices.Equal(options["image"], []string{"", "notebook", "root"}) || !slices.Equal(options["memory"], []string{"", "512M", "1G", "2G", "4G", "6G"}) {
		t.Errorf("choices %q", options)
	}
	for _, in := range all(doc, "input") {
		if attr(in, "name") == "cpus" && (attr(in, "type") != "number" || attr(in, "min") == "" || attr(in, "max") != "4" || attr(in, "step") == "") {
			t.Errorf("cpus: %v", in.Attr)
		}
	}
}

func TestFormIsAccessible(t *testing.T) {
	doc := spawnForm(t)
	labels := map[string]bool{}
	for _, l := range all(doc, "label") {
		labels[attr(l, "for")] = text(l) != ""
	}
	for _, name := range []string{"input", "select"} {
		for _, field := range all(doc, name) {
			inLabel := field.Parent != nil && field.Parent.Data == "label"
			if !inLabel && !labels[attr(field, "id")] {
				t.Errorf("%s %q has no label", name, attr(field, "name"))
			}
		}
	}
	for _, f := range all(doc, "fieldset") {
		if len(all(f, "legend")) != 1 {
			t.Error("a fieldset lacks its legend")
		}
	}
	ids := map[string]bool{}
	for d := range doc.Descendants() {
		if id := attr(d, "id"); id != "" {
			ids[id] = true
		}
	}
	for d := range doc.Descendants() {
		if by := attr(d, "aria-describedby"); by != "" && !ids[by] {
			t.Errorf("%q is described by nothing", by)
		}
	}
}

func TestFormEscapesText(t *testing.T) {
	card := all(spawnForm(t), "label")[0]
	if got := text(card); !strings.Contains(got, `<script>alert("x")</script>`) || !strings.Contains(got, "Python <3>") || !strings.Contains(got, "1 CPU (at most 2), 2 GiB of memory (at most 6 GiB)") {
		t.Errorf("the card says %q", got)
	}
	for d := range spawnForm(t).Descendants() {
		if has(d, "onclick") {
			t.Error("a name broke out of its attribute")
		}
	}
}

func TestFormOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := SpawnForm(&b, Form{}); err != nil {
		t.Error(err)
	}
}

func TestNotices(t *testing.T) {
	for _, tc := range []struct {
		show    func(http.ResponseWriter, *http.Request)
		status  int
		refresh bool
	}{
		{NoSession, 404, false},
		{func(w http.ResponseWriter, r *http.Request) { NotUp(w, r, "<b>booting") }, 503, true},
		{Gone, 502, false},
	} {
		r := httptest.NewRequest("GET", "/user/a/", nil)
		plain := httptest.NewRecorder()
		tc.show(plain, r)
		if plain.Code != tc.status || !strings.HasPrefix(plain.Header().Get("Content-Type"), "text/plain") || plain.Body.Len() == 0 {
			t.Errorf("a program gets %d %v %q", plain.Code, plain.Header(), plain.Body)
		}
		r.Header.Set("Accept", "text/html,application/xhtml+xml")
		page := httptest.NewRecorder()
		tc.show(page, r)
		doc := parse(t, page.Body.String())
		if page.Code != tc.status || len(all(doc, "h1")) != 1 || len(all(doc, "b")) > 0 || text(all(doc, "main")[0]) == "" {
			t.Errorf("a browser gets %d %q", page.Code, page.Body)
		}
		refresh := slices.ContainsFunc(all(doc, "meta"), func(n *html.Node) bool { return attr(n, "http-equiv") == "refresh" })
		if refresh != tc.refresh || (page.Header().Get("Retry-After") != "") != tc.refresh {
			t.Errorf("%d asks again: %t", tc.status, refresh)
		}
	}
}
