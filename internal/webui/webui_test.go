package webui

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	n, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// all returns the elements of a name below n.
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

func TestNotices(t *testing.T) {
	for _, tc := range []struct {
		show    func(http.ResponseWriter, *http.Request)
		status  int
		refresh bool
	}{
		{func(w http.ResponseWriter, r *http.Request) { NoSession(w, r, false, "/services/slipway/") }, 404, false},
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
