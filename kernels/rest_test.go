package kernels_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"slipway/kernels"
	"slipway/spawner"
)

func TestStartAndModel(t *testing.T) {
	s := newSite(t, nil)
	a := s.as("alice", "POST", "/api/kernels", `{"name": "python", "env": {"KERNEL_USERNAME": "jovyan", "KERNEL_SITE": "mine"}, "path": "x"}`)
	id := a.field("id")
	if a.status != 201 || !regexp.MustCompile(`^\w{8}-\w{4}-4\w{3}-\w{4}-\w{12}$`).MatchString(id) || !strings.HasSuffix(a.header.Get("Location"), "/api/kernels/"+id) {
		t.Errorf("%+v", a)
	}
	if at := a.field("last_activity"); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`).MatchString(at) {
		t.Errorf("last_activity %q", at)
	}
	if a.field("execution_state") != "idle" || a.field("name") != "python" || !strings.Contains(a.text, `"connections":0`) {
		t.Error(a.text)
	}
	if env := s.asked[0].Spec.Env; env["KERNEL_USERNAME"] != "jovyan" || env["KERNEL_SITE"] != "here" {
		t.Errorf("the kernel's environment: %v", env)
	}
	if one := s.as("alice", "GET", "/api/kernels/"+id, ""); one.status != 200 || one.field("id") != id {
		t.Errorf("%+v", one)
	}
	if list := s.as("alice", "GET", "/api/kernels", ""); !strings.HasPrefix(list.text, "[") || !strings.Contains(list.text, id) {
		t.Errorf("%+v", list)
	}
	if got := s.as("alice", "POST", "/api/kernels/"+id+"/interrupt", "{}").status; got != 204 {
		t.Errorf("interrupt: %d", got)
	}
	if got := s.as("alice", "POST", "/api/kernels/"+id+"/restart", "{}"); got.status != 200 || got.field("id") != id {
		t.Errorf("restart: %+v", got)
	}
	if got := s.as("alice", "DELETE", "/api/kernels/"+id, "").status; got != 204 {
		t.Errorf("shutdown: %d", got)
	}
	if got := s.as("alice", "GET", "/api/kernels/"+id, "").status; got != 404 {
		t.Errorf("after that: %d", got)
	}
	if list := s.as("alice", "GET", "/api/kernels", ""); strings.TrimSpace(list.text) != "[]" {
		t.Errorf("after that the list is %q", list.text)
	}
}

func TestKernelspecs(t *testing.T) {
	s := newSite(t, nil)
	a := s.as("alice", "GET", "/api/kernelspecs?user=x", "")
	for _, want := range []string{`"default":"python"`, `"kernelspecs":{"python":{"name":"python"`, `"display_name":"Python (GPU)"`, `"interrupt_mode":"signal"`, `"logo-svg":"/kernelspecs/python/logo-svg.svg"`} {
		if !strings.Contains(a.text, want) {
			t.Errorf("%s is not in %s", want, a.text)
		}
	}
	if got := s.as("alice", "GET", "/api/kernelspecs/python", ""); got.status != 200 || got.field("name") != "python" {
		t.Errorf("%+v", got)
	}
	if got := s.as("alice", "GET", "/kernelspecs/python/logo-128x128.png", "").status; got != 404 {
		t.Errorf("a logo: %d", got)
	}
	if got := s.as("bob", "POST", "/api/kernels", `{"name": "python"}`); got.status != 404 || !strings.Contains(got.field("message"), "python") || got.field("reason") != "Not Found" {
		t.Errorf("of another's: %+v", got)
	}
	if got := s.as("", "GET", "/api", ""); got.status != 200 || got.field("version") == "" {
		t.Errorf("%+v", got)
	}
}

func TestStrangersFindNothing(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	for _, call := range []string{"GET ", "DELETE ", "POST /interrupt", "POST /restart", "GET /channels"} {
		method, path, _ := strings.Cut(call, " ")
		if got := s.as("bob", method, "/api/kernels/"+id+path, ""); got.status != 404 || got.field("message") == "" {
			t.Errorf("%s: %+v", call, got)
		}
		if got := s.as("eve", method, "/api/kernels/"+id+path, ""); got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s without a token: %+v", call, got)
		}
	}
	if list := s.as("bob", "GET", "/api/kernels", ""); strings.TrimSpace(list.text) != "[]" {
		t.Errorf("bob sees %s", list.text)
	}
	if a := s.agent("s-" + spawner.ID(id)); a.interrupts+a.restarts > 0 || s.as("alice", "GET", "/api/kernels/"+id, "").status != 200 {
		t.Error("somebody has changed it")
	}
}

func TestTokens(t *testing.T) {
	s := newSite(t, nil)
	for _, tt := range []struct {
		header, query string
		want          int
	}{{"token alice", "", 200}, {"Bearer alice", "", 200}, {"", "?token=alice", 200}, {"", "?token=", 401}, {"token ", "", 401}, {"Basic alice", "", 401}, {"token eve", "?token=alice", 401}} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+"/api/kernels"+tt.query, nil)
		r.Header.Set("Authorization", tt.header)
		if got := s.do(r).status; got != tt.want {
			t.Errorf("%q %q: %d, want %d", tt.header, tt.query, got, tt.want)
		}
	}
}

// Jupyter Server starts its default kernel where the body says nothing.
func TestDefaultKernelIsStartedWithoutABody(t *testing.T) {
	for _, body := range []string{"", "\n", "null", "{}", `{"name": ""}`} {
		s := newSite(t, nil)
		if a := s.as("alice", "POST", "/api/kernels", body); a.status != http.StatusCreated || a.field("name") != "python" {
			t.Errorf("%q: %d %s", body, a.status, a.text)
		}
	}
}

func TestHostileEnvironment(t *testing.T) {
	s := newSite(t, nil)
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf(`"KERNEL_%d": ""`, i)
	}
	for _, env := range []string{
		`"PATH": "/tmp"`, `"LD_PRELOAD": "x.so"`, `"kernel_x": ""`, `"KERNEL_": ""`, `"KERNEL_A B": ""`, `"": ""`, `"KERNEL_A": "$(id)"`, "\"KERNEL_A\": \"`id`\"", `"KERNEL_A": "a\nb"`, `"KERNEL_A": "\u0000"`,
		`"KERNEL_A": "` + strings.Repeat("x", 4097) + `"`, `"KERNEL_` + strings.Repeat("X", 200) + `": ""`, `"KERNEL_A": 1`, strings.Join(many, ", "),
	} {
		if got := s.as("alice", "POST", "/api/kernels", `{"env": {`+env+`}}`); got.status != 400 || got.field("message") == "" || got.field("reason") != "Bad Request" {
			t.Errorf("%.60s: %+v", env, got)
		}
	}
	for body, want := range map[string]int{"[]": 400, `{"name": "py`: 400, `{"name": 1}`: 400, strings.Repeat(" ", 2<<20) + "{}": 413} {
		if got := s.as("alice", "POST", "/api/kernels", body).status; got != want {
			t.Errorf("%.20q: %d", body, got)
		}
	}
	if len(s.asked) > 0 {
		t.Errorf("%d kernels were started", len(s.asked))
	}
}

func TestKernelThatWaits(t *testing.T) {
	s := newSite(t, nil)
	s.slow = true
	a := s.as("alice", "POST", "/api/kernels", `{}`)
	if a.status != 201 || a.field("execution_state") != "starting" {
		t.Fatalf("%+v", a)
	}
	if got := s.as("alice", "POST", "/api/kernels/"+a.field("id")+"/interrupt", ""); got.status != 409 {
		t.Errorf("interrupt: %+v", got)
	}
	s.become(func(w *spawner.Workload) {
		w.Phase, w.Want, w.Outcome = spawner.Stopped, spawner.WantStopped, &spawner.Outcome{Failed: true, Reason: "no such image"}
	})
	if got := s.as("alice", "GET", "/api/kernels/"+a.field("id"), ""); got.field("execution_state") != "dead" || got.field("reason") != "no such image" {
		t.Errorf("%+v", got)
	}
	if list := s.as("alice", "GET", "/api/kernels", ""); strings.TrimSpace(list.text) != "[]" {
		t.Errorf("the dead are listed: %s", list.text)
	}
}

// A kernel that has ended is started anew by a restart: its client knows it by the same id, and it has its notebooks.
func TestRestartOfAKernelThatHasEnded(t *testing.T) {
	s := newSite(t, nil)
	n := s.session("POST", "/api/sessions", `{"path": "a.ipynb", "type": "notebook", "kernel": {"name": "python"}}`, 201)
	id := n.Kernel.ID
	for _, refused := range []bool{true, false} {
		s.become(func(w *spawner.Workload) {
			w.Phase, w.Want, w.Outcome = spawner.Stopped, spawner.WantStopped, &spawner.Outcome{Failed: true, Reason: "its container was killed"}
			if w.Name = "python"; refused {
				w.Name = "gone"
			}
		})
		a := s.as("alice", "POST", "/api/kernels/"+id+"/restart", "")
		if refused {
			if a.status != 404 || !strings.Contains(a.text, "choose one of") || s.as("alice", "GET", "/api/kernels/"+id, "").field("reason") == "" {
				t.Errorf("%+v", a)
			}
		} else if a.status != 200 || a.field("id") != id || a.field("execution_state") != "idle" {
			t.Errorf("%+v", a)
		}
	}
	if again := s.session("GET", "/api/sessions/"+n.ID, "", 200); again.Kernel.ID != id || len(s.asked) != 2 || s.asked[1].Launch != s.asked[0].Launch {
		t.Errorf("%+v, %+v", again, s.asked)
	}
	b := s.open(id, "one")
	b.say(ask("1"))
	b.hears("1")
}

func TestAgentAway(t *testing.T) {
	s := newSite(t, nil)
	id := s.start()
	s.agent("s-" + spawner.ID(id)).leave()
	if got := s.as("alice", "GET", "/api/kernels/"+id, ""); got.status != 200 || got.field("execution_state") != "unknown" {
		t.Errorf("%+v", got)
	}
}

// papermill cannot say which kernelspec it wants but by the environment.
func TestAnyPython(t *testing.T) {
	s := newSite(t, func(c *kernels.Config) {
		specs := c.Specs
		c.Specs = func(c spawner.Caller) []kernels.Spec {
			return append([]kernels.Spec{{Name: "r", Language: "R"}}, append(specs(c), kernels.Spec{Name: "gpu", Language: "python"})...)
		}
	})
	for body, want := range map[string]string{
		`{"name": "python3"}`: "python", `{"name": "python3", "env": {"KERNEL_SPEC": "gpu"}}`: "gpu", `{"name": "python", "env": {"KERNEL_SPEC": "gpu"}}`: "python", `{}`: "r",
	} {
		if a := s.as("alice", "POST", "/api/kernels", body); a.status != 201 || a.field("name") != want {
			t.Errorf("%s: %+v", body, a)
		}
	}
	for _, body := range []string{`{"name": "python3", "env": {"KERNEL_SPEC": "no"}}`, `{"name": "python4"}`} {
		if a := s.as("alice", "POST", "/api/kernels", body); a.status != 404 {
			t.Errorf("%s: %+v", body, a)
		}
	}
}
