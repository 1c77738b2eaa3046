package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/kernels"
	"slipway/spawner"
)

// withKernels is a server with the real gateway, whose engine has one kernel of alice's.
func withKernels(t *testing.T) *harness { return withEngine(t, &oneKernel{k: aKernel()}) }

func aKernel() spawner.Workload {
	k := lab("s-kernel", "alice", "")
	k.Kind, k.Kernel, k.Notebooks = spawner.Kernel, "11111111-1111-4111-8111-111111111111", []spawner.Notebook{{ID: "22222222-2222-4222-8222-222222222222", Path: "a", Type: "notebook"}}
	return k
}

func withEngine(t *testing.T, e kernels.Engine) *harness {
	return start(t, newFake(), func(c *Config) {
		c.Kernels = func(identify func(*http.Request) (spawner.Caller, error), tell func(context.Context, kernels.Deed)) http.Handler {
			return kernels.New(kernels.Config{
				Engine: e, Identify: identify, Tell: tell, Logger: c.Logger, Specs: func(spawner.Caller) []kernels.Spec { return []kernels.Spec{{Name: "python"}} },
				Agent: func(spawner.ID) kernels.Agent { return mute{} },
			})
		}
	})
}

// oneKernel is an engine with one kernel, which waits for its slice.
type oneKernel struct {
	kernels.Engine
	k spawner.Workload
}

func (e *oneKernel) Kernels(c spawner.Caller) []spawner.Workload {
	e.k.Phase = spawner.Pending
	if c.User != e.k.Owner {
		return nil
	}
	return []spawner.Workload{e.k}
}

func (e *oneKernel) StartKernel(context.Context, spawner.Caller, spawner.KernelRequest) (spawner.Workload, error) {
	return spawner.Workload{}, errs.New(errs.OverQuota, "you have 1 kernel")
}

func (e *oneKernel) Bind(context.Context, spawner.Caller, spawner.ID, spawner.Notebook) (spawner.Workload, error) {
	return e.k, nil
}

func (e *oneKernel) HowFar(spawner.Caller, spawner.ID) string { return "" }

func (e *oneKernel) Remove(context.Context, spawner.Caller, spawner.ID) error { return nil }

func (e *oneKernel) Await(context.Context, spawner.Caller, spawner.ID, func(spawner.Workload) bool) (spawner.Workload, error) {
	return e.k, context.DeadlineExceeded
}

// Each request to the gateway that changes something leaves one line, with the session and without what opens a kernel;
// the others leave none.
func TestKernelsAreInTheLog(t *testing.T) {
	h := withKernels(t)
	bodies := map[string]string{"POST /kernels/api/sessions": `{"path": "b", "type": "notebook", "kernel": {"name": "python"}}`, "POST /kernels/api/kernels": `{"name": "python"}`, "PATCH /kernels/api/sessions/{id}": `{"name": "x"}`}
	done := map[string]bool{"DELETE /kernels/api/kernels/{id}": true, "PATCH /kernels/api/sessions/{id}": true, "DELETE /kernels/api/sessions/{id}": true}
	seen := 0
	walkRoutes(t, h.Public().(chi.Routes), func(method, route string) {
		if !web.OfKernels(route) || strings.HasSuffix(route, "*") {
			return
		}
		seen++
		id := "11111111-1111-4111-8111-111111111111"
		if strings.Contains(route, "sessions") {
			id = "22222222-2222-4222-8222-222222222222"
		}
		for _, who := range []string{"alice", "bob", ""} {
			before := len(h.logged.String())
			r := httptest.NewRequest(method, strings.NewReplacer("{id}", id, "{name}", "python", "{file}", "x").Replace(route), strings.NewReader(bodies[method+" "+route]))
			if who != "" {
				r.Header.Set("Authorization", "token "+who+"-token")
			}
			h.Public().ServeHTTP(httptest.NewRecorder(), r)
			logged := h.logged.String()[before:]
			lines, action := auditLines(logged), method+" "+route
			if strings.Contains(logged, id) || strings.Contains(logged, who+"-token") && who != "" {
				t.Errorf("%s has told a secret: %s", action, logged)
			}
			if !audit.Changes(method, route) {
				if len(lines) > 0 {
					t.Errorf("%s changes nothing: %s", action, lines)
				}
				continue
			}
			want := "audit=refused action=\"" + action
			if who == "alice" && done[action] {
				want = "msg=\"" + audit.Words()[action] + "\" kernel=s-kernel by=\"alice of main\""
			}
			if len(lines) != 1 || !strings.Contains(lines[0], want) || audit.Words()[action] == "" || strings.Contains(lines[0], `why=""`) && !done[action] {
				t.Errorf("%s as %q: %s, want %s", action, who, lines, want)
			}
		}
	})
	if seen < 15 {
		t.Errorf("%d routes", seen)
	}
}

// mute is an agent that does not answer.
type mute struct{ kernels.Agent }

func (mute) Kernel(context.Context) (control.KernelStatus, error) {
	return control.KernelStatus{}, errs.New(errs.Unavailable, "it is away")
}

// another is an engine in which each kernel that is asked for comes up at once.
type another struct{ oneKernel }

func (e *another) fresh() spawner.Workload {
	k := aKernel()
	k.ID, k.Kernel, k.Phase = "s-other", "33333333-3333-4333-8333-333333333333", spawner.Running
	return k
}

func (e *another) StartKernel(context.Context, spawner.Caller, spawner.KernelRequest) (spawner.Workload, error) {
	return e.fresh(), nil
}

func (e *another) Bind(context.Context, spawner.Caller, spawner.ID, spawner.Notebook) (spawner.Workload, error) {
	return e.fresh(), nil
}

func (e *another) Await(context.Context, spawner.Caller, spawner.ID, func(spawner.Workload) bool) (spawner.Workload, error) {
	return e.fresh(), nil
}

// A notebook that gets another kernel is one line, with the kernel that it has and the one that has ended.
func TestChangedKernelIsInTheLog(t *testing.T) {
	h := withEngine(t, &another{oneKernel{k: aKernel()}})
	r := httptest.NewRequest(http.MethodPatch, "/kernels/api/sessions/22222222-2222-4222-8222-222222222222", strings.NewReader(`{"kernel": {"name": "python"}}`))
	r.Header.Set("Authorization", "token alice-token")
	h.Public().ServeHTTP(httptest.NewRecorder(), r)
	if lines := auditLines(h.logged.String()); len(lines) != 1 || !strings.Contains(lines[0], "kernel=s-other ended=s-kernel by=") || !strings.Contains(lines[0], "audit=done") {
		t.Errorf("%s", lines)
	}
}

func TestTicketsAreInTheLog(t *testing.T) {
	var tell func(context.Context, kernels.Deed)
	h := start(t, newFake(), func(c *Config) {
		c.Kernels = func(_ func(*http.Request) (spawner.Caller, error), told func(context.Context, kernels.Deed)) http.Handler {
			tell = told
			return http.NotFoundHandler()
		}
	})
	tell(t.Context(), kernels.Deed{By: spawner.Caller{Hub: "main", User: "alice"}})
	if lines := auditLines(h.logged.String()); len(lines) != 1 || !strings.Contains(lines[0], `by="alice of main" user=alice hub=main door=ticket`) {
		t.Errorf("%s", lines)
	}
}
