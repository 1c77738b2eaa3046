package kernels_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestSwaggerSaysWhatThereIs(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	var doc struct {
		Swagger string
		Paths   map[string]map[string]struct {
			Summary    string
			Parameters []struct{ Name string }
		}
	}
	a := s.as("", "GET", "/api/swagger.json", "")
	if err := json.Unmarshal([]byte(a.text), &doc); err != nil || doc.Swagger != "2.0" || len(doc.Paths) < 10 {
		t.Fatalf("%+v", a)
	}
	if y := s.as("", "GET", "/api/swagger.yaml", ""); y.text != a.text || y.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("%+v", y)
	}
	for path, methods := range doc.Paths {
		for method, m := range methods {
			if m.Summary == "" || len(m.Parameters) != strings.Count(path, "{") {
				t.Errorf("%s %s: %+v", method, path, m)
			}
			at := strings.NewReplacer("{id}", id, "{name}", "python", "{file}", "x").Replace(path)
			if got := s.as("eve", strings.ToUpper(method), at, ""); got.status != 401 && got.status != 200 {
				t.Errorf("%s %s as nobody: %d", method, path, got.status)
			}
		}
	}
}

func TestMeAndStatus(t *testing.T) {
	s := newSite(t, nil)
	s.start()
	if a := s.as("alice", "GET", "/api/me", ""); a.status != 200 || !strings.Contains(a.text, `"username":"alice"`) {
		t.Errorf("%+v", a)
	}
	a := s.as("alice", "GET", "/api/status", "")
	if !strings.Contains(a.text, `"kernels":1`) || !regexp.MustCompile(`^\d{4}-.*\.\d{6}Z$`).MatchString(a.field("last_activity")) || !regexp.MustCompile(`^\d{4}-.*\.\d{6}Z$`).MatchString(a.field("started")) {
		t.Errorf("%+v", a)
	}
	if a := s.as("bob", "GET", "/api/status", ""); !strings.Contains(a.text, `"kernels":0`) {
		t.Errorf("%+v", a)
	}
}

// The files of a kernelspec are those that it names.
func TestLogoRoute(t *testing.T) {
	s := newSite(t, nil)
	var specs struct {
		Kernelspecs map[string]struct{ Resources map[string]string }
	}
	a := s.as("alice", "GET", "/api/kernelspecs", "")
	if err := json.Unmarshal([]byte(a.text), &specs); err != nil || len(specs.Kernelspecs["python"].Resources) == 0 {
		t.Fatalf("%+v", a)
	}
	for key, path := range specs.Kernelspecs["python"].Resources {
		a := s.as("alice", "GET", path, "")
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "image/") || a.header.Get("X-Content-Type-Options") != "nosniff" || a.text == "" {
			t.Errorf("%s: %d %v", key, a.status, a.header)
		}
		if a := s.as("bob", "GET", path, ""); a.status != 404 {
			t.Errorf("%s as bob, who has no kernelspecs: %d", key, a.status)
		}
		if a := s.as("eve", "GET", path, ""); a.status != 401 {
			t.Errorf("%s as nobody: %d", key, a.status)
		}
	}
	for _, path := range []string{"/kernelspecs/python/kernel.js", "/kernelspecs/python/..%2f..%2fetc%2fpasswd", "/kernelspecs/no/logo-svg.svg", "/kernelspecs/python/", "/kernelspecs/%2e%2e/logo-svg.svg"} {
		if a := s.as("alice", "GET", path, ""); a.status != 404 {
			t.Errorf("%s: %+v", path, a)
		}
	}
}
