package server

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// fakeDoctor keeps reports, and counts what it is asked.
type fakeDoctor struct {
	mu      sync.Mutex
	reports map[spawner.ID]hubapi.DataReport
	again   []spawner.ID
}

func newFakeDoctor() *fakeDoctor { return &fakeDoctor{reports: map[spawner.ID]hubapi.DataReport{}} }

func (f *fakeDoctor) Plan(_ context.Context, w spawner.Workload) hubapi.DataPlan {
	return hubapi.DataPlan{User: string(w.Owner), CVMFS: []string{"a.test"}, Storage: []hubapi.DataElement{}, Issuers: []hubapi.DataIssuer{}}
}

func (f *fakeDoctor) Issuer(_ context.Context, name string) (hubapi.IssuerLook, error) {
	if name != "wlcg" {
		return hubapi.IssuerLook{}, errs.New(errs.NotFound, "there is no issuer %s", name)
	}
	return hubapi.IssuerLook{Ahead: 1}, nil
}

func (f *fakeDoctor) Keep(_ context.Context, w spawner.Workload, r hubapi.DataReport) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports[w.ID] = r
	return nil
}

func (f *fakeDoctor) Report(_ context.Context, id spawner.ID) (hubapi.DataReport, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, known := f.reports[id]
	if !known {
		return r, errs.New(errs.NotFound, "nothing has looked at %s", id)
	}
	return r, nil
}

func (f *fakeDoctor) Again(_ context.Context, id spawner.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.again = append(f.again, id)
	return nil
}

// TestDataReports: what was found in a session comes from inside it alone, and is shown to who may see the session.
func TestDataReports(t *testing.T) {
	doctor := newFakeDoctor()
	ended := lab("s-ended", "alice", "/user/alice/ended/")
	ended.Phase = spawner.Stopped
	h := start(t, newFake(lab("s-1", "alice", "/user/alice/"), lab("s-2", "alice", "/user/alice/two/"), ended, job("j-1", "alice")), func(c *Config) { c.DataDoctor = doctor })
	report := hubapi.DataReport{At: time.Unix(1e9, 0).UTC(), Checks: []hubapi.DataCheck{{Check: "clock\x1b[2J", Result: hubapi.CheckFail, Finding: "it\nis off", Remedy: strings.Repeat("x", 2000)}}}
	inside, outside, other := h.inside(t, "s-1"), h.client(t, "alice-token"), h.client(t, "bob-token")
	if _, err := outside.DataReport(t.Context(), "s-1"); !errs.Is(err, errs.NotFound) {
		t.Errorf("before any look: %v", err)
	}
	if plan, err := inside.DataPlan(t.Context()); err != nil || plan.User != "alice" || len(plan.CVMFS) != 1 {
		t.Errorf("%+v, %v", plan, err)
	}
	if plan, err := h.inside(t, "j-1").DataPlan(t.Context()); err != nil || plan.User != "alice" {
		t.Errorf("in a job: %+v, %v", plan, err)
	}
	if _, err := outside.DataPlan(t.Context()); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a plan outside: %v", err)
	}
	if look, err := inside.LookAtIssuer(t.Context(), "wlcg"); err != nil || look.Ahead != 1 {
		t.Errorf("%+v, %v", look, err)
	}
	if err := inside.PutDataReport(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	got, err := outside.DataReport(t.Context(), "s-1")
	if err != nil || len(got.Checks) != 1 || got.Checks[0].Check != "clock [2J" || got.Checks[0].Finding != "it is off" || len(got.Checks[0].Remedy) != 600 {
		t.Errorf("%+v, %v", got, err)
	}
	for name, err := range map[string]error{
		"another user sees it":          func() error { _, err := other.DataReport(t.Context(), "s-1"); return err }(),
		"another user has it looked at": other.CheckData(t.Context(), "s-1"),
		"it comes from outside": func() error {
			_, err := outsidePut(h, "alice-token", "s-1")
			return err
		}(),
		"it looks where nothing runs": outside.CheckData(t.Context(), "s-ended"),
	} {
		if err == nil {
			t.Error(name)
		}
	}
	report.Checks[0].Result = "splendid"
	if err := inside.PutDataReport(t.Context(), report); !errs.Is(err, errs.Invalid) {
		t.Errorf("a result that is none: %v", err)
	}
	if err := outside.CheckData(t.Context(), "s-2"); err != nil || len(doctor.again) != 1 || doctor.again[0] != "s-2" {
		t.Errorf("%v, %v", err, doctor.again)
	}
	if log := h.logged.String(); !strings.Contains(log, "a session's data was looked at") || !strings.Contains(log, "a session's data is to be looked at again") {
		t.Errorf("log: %s", log)
	}
}

// outsidePut says from outside what was found in a session.
func outsidePut(h *harness, token, id string) (int, error) {
	req, _ := http.NewRequest(http.MethodPut, h.front.URL+hubapi.Base+"/sessions/"+id+"/data-check", strings.NewReader(`{"checks":[]}`))
	req.Header.Set("Authorization", "token "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, errs.New(errs.Forbidden, "refused")
	}
	return resp.StatusCode, nil
}

// inside is the client of programs in a workload.
func (h *harness) inside(t *testing.T, id spawner.ID) *hubapi.Client {
	t.Helper()
	c, err := hubapi.NewClient(hubapi.ClientConfig{URL: "http://" + agentServer(t, h.AgentAPI(), string(id)), Token: "unused"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
