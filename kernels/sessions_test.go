package kernels_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"slipway/spawner"
)

type session struct {
	ID, Path, Name, Type string
	Kernel               struct {
		ID, Name       string
		ExecutionState string `json:"execution_state"`
	}
	Notebook map[string]string
}

func (s *site) session(method, path, body string, want int) (v session) {
	s.Helper()
	a := s.as("alice", method, path, body)
	if a.status != want {
		s.Fatalf("%s %s: %+v", method, path, a)
	}
	_ = json.Unmarshal([]byte(a.text), &v)
	return v
}

func TestSessions(t *testing.T) {
	s := newSite(t, nil)
	first := s.session("POST", "/api/sessions", `{"path": "a/b.ipynb", "name": "b", "type": "notebook", "kernel": {"id": null, "name": "python"}, "more": 1}`, 201)
	if first.Path != "a/b.ipynb" || first.Name != "b" || first.Type != "notebook" || first.Kernel.Name != "python" || first.Kernel.ExecutionState != "idle" || first.Notebook["path"] != "a/b.ipynb" || first.ID == first.Kernel.ID {
		t.Errorf("%+v", first)
	}
	if again := s.session("POST", "/api/sessions", `{"path": "a/b.ipynb", "type": "notebook", "kernel": {"name": "python"}}`, 201); again.ID != first.ID || len(s.asked) != 1 {
		t.Errorf("asked for again: %+v, and %d kernels", again, len(s.asked))
	}
	beside := s.session("POST", "/api/sessions", `{"path": "console", "type": "console", "kernel": {"id": "`+first.Kernel.ID+`"}}`, 201)
	if beside.Kernel.ID != first.Kernel.ID || beside.ID == first.ID || beside.Notebook != nil || len(s.asked) != 1 {
		t.Errorf("a console of the same kernel: %+v", beside)
	}
	if moved := s.session("PATCH", "/api/sessions/"+first.ID, `{"path": "c.ipynb", "name": "c"}`, 200); moved.Path != "c.ipynb" || moved.Name != "c" || moved.Type != "notebook" || moved.Kernel.ID != first.Kernel.ID {
		t.Errorf("%+v", moved)
	}
	if got := s.session("GET", "/api/sessions/"+first.ID, "", 200); got.Path != "c.ipynb" {
		t.Errorf("%+v", got)
	}
	var list []session
	if a := s.as("alice", "GET", "/api/sessions", ""); json.Unmarshal([]byte(a.text), &list) != nil || len(list) != 2 {
		t.Errorf("%+v", a)
	}
	other := s.session("PATCH", "/api/sessions/"+beside.ID, `{"kernel": {"name": "python"}}`, 200)
	if other.ID != beside.ID || other.Kernel.ID == first.Kernel.ID || len(s.asked) != 2 {
		t.Errorf("with another kernel: %+v", other)
	}
	s.session("GET", "/api/sessions/"+first.ID, "", 404) // its kernel was that one's
	s.session("DELETE", "/api/sessions/"+beside.ID, "", 204)
	if a := s.as("alice", "GET", "/api/sessions", ""); strings.TrimSpace(a.text) != "[]" || len(s.Kernels(spawner.Caller{User: "alice", Hub: "main"})) > 0 {
		t.Errorf("after all is deleted: %+v", a)
	}
}

// Two windows of one browser ask at once: there is one kernel.
func TestSessionsAtOnce(t *testing.T) {
	s := newSite(t, nil)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() { s.as("alice", "POST", "/api/sessions", `{"path": "a", "type": "notebook"}`) })
	}
	asking.Wait()
	if len(s.asked) != 1 {
		t.Errorf("%d kernels were started", len(s.asked))
	}
}

func TestSessionsThatCannotBe(t *testing.T) {
	s := newSite(t, nil)
	for body, want := range map[string]int{
		"": 400, "[]": 400, `{"path": 1}`: 400, `{"type": "notebook"}`: 400, `{"path": "a"}`: 400, `{"path": "", "type": "x"}`: 400,
		`{"path": "a", "type": "x", "kernel": {"name": "no such"}}`: 404, `{"path": "a", "type": "x", "kernel": {"id": "no such"}}`: 404,
		`{"path": "` + strings.Repeat("x", 2<<20) + `", "type": "x"}`: 413,
	} {
		if a := s.as("alice", "POST", "/api/sessions", body); a.status != want || a.field("message") == "" {
			t.Errorf("%.60s: %+v", body, a)
		}
	}
	if len(s.asked) > 0 {
		t.Errorf("%d kernels were started", len(s.asked))
	}
	s.full = true
	s.session("POST", "/api/sessions", `{"path": "a", "type": "x"}`, 409)
	if left := s.Kernels(spawner.Caller{User: "alice", Hub: "main"}); len(left) > 0 {
		t.Errorf("a kernel without its notebook is left: %+v", left)
	}
}

func TestSessionsOfStrangers(t *testing.T) {
	s := newSite(t, nil)
	hers := s.session("POST", "/api/sessions", `{"path": "a", "type": "notebook"}`, 201)
	absent := s.as("bob", "GET", "/api/sessions/"+strings.Repeat("0", 36), "")
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		a := s.as("bob", method, "/api/sessions/"+hers.ID, "{}")
		if a.status != 404 || strings.ReplaceAll(a.text, hers.ID, strings.Repeat("0", 36)) != absent.text {
			t.Errorf("%s of another's is not as of none: %+v, %+v", method, a, absent)
		}
		if a := s.as("eve", method, "/api/sessions/"+hers.ID, "{}"); a.status != 401 {
			t.Errorf("%s: %+v", method, a)
		}
	}
	if a := s.as("bob", "POST", "/api/sessions", `{"path": "b", "type": "x", "kernel": {"id": "`+hers.Kernel.ID+`"}}`); a.status != 404 {
		t.Errorf("bob takes her kernel: %+v", a)
	}
	if a := s.as("bob", "GET", "/api/sessions", ""); strings.TrimSpace(a.text) != "[]" {
		t.Errorf("bob sees %s", a.text)
	}
	s.session("GET", "/api/sessions/"+hers.ID, "", 200)
}

func TestOddRequests(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	for call, want := range map[string]int{
		"GET /": 404, "GET ": 404, "GET /api/contents": 404, "GET /api/terminals": 404, "GET /api/../../healthz": 404, "GET /tree": 404,
		"PUT /api/kernels/" + id: 405, "OPTIONS /api/kernels": 405, "TRACE /api": 405, "DELETE /api/kernels": 405, "POST /api/kernelspecs": 405,
		"GET /api/kernels/" + strings.Repeat("x", 4000): 404, "GET /api/kernels/%00": 404, "GET /api/kernels/" + id + "/channels": 426,
	} {
		method, path, _ := strings.Cut(call, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "token alice")
		r.Header.Set("Origin", "https://evil.example")
		a := s.do(r)
		if a.status != want || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%.60s: %.200v", call, a)
		}
	}
}
