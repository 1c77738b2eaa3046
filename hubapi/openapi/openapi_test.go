package openapi

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestPageHasAll: each operation of the document and each type, and no link leads nowhere.
func TestPageHasAll(t *testing.T) {
	page, err := Page()
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	var d document
	if err := json.Unmarshal(Document, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Paths) < 50 || len(d.Components.Schemas) < 50 {
		t.Fatalf("%d paths, %d types", len(d.Paths), len(d.Components.Schemas))
	}
	for _, methods := range d.Paths {
		for method, o := range methods {
			if !strings.Contains(text, `<h3 id="`+o.ID+`"><b>`+strings.ToUpper(method)+`</b>`) {
				t.Errorf("%s is not on the page", o.ID)
			}
		}
	}
	for name := range d.Components.Schemas {
		if !strings.Contains(text, `<h3 id="`+name+`">`) {
			t.Errorf("type %s is not on the page", name)
		}
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(text, -1) {
		to := strings.ReplaceAll(m[1], "%20", " ")
		if !strings.Contains(text, `id="`+to+`"`) {
			t.Errorf("a link leads to #%s, which is not there", to)
		}
	}
	if strings.Contains(text, "<script") || strings.Contains(text, "ZgotmplZ") {
		t.Error("the page has a script, or what the template takes for one")
	}
}
