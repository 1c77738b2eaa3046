package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"slipway/hubapi"
	"slipway/hubapi/server/hubs"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

func TestWhoIsCalling(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice")), nil)
	for _, tc := range []struct {
		header string
		want   hubapi.Me
		kind   errs.Kind
	}{
		{"Bearer alice-token", hubapi.Me{User: "alice", Hub: "main"}, 0},
		{"token alice-token", hubapi.Me{User: "alice", Hub: "main"}, 0},
		{"bearer   root-token", hubapi.Me{User: "root", Hub: "main", Admin: true}, 0},
		{"Bearer " + spawnerToken, hubapi.Me{Hub: "main"}, 0},
		{"Bearer " + spawnerToken + "x", hubapi.Me{}, errs.Unauthorized},
		{"Bearer stolen", hubapi.Me{}, errs.Unauthorized},
		{"Bearer down-token", hubapi.Me{}, errs.Unavailable},
		{"Basic YTpi", hubapi.Me{}, errs.Unauthorized},
		{"Bearer", hubapi.Me{}, errs.Unauthorized},
		{"Bearer " + strings.Repeat("x", 4097), hubapi.Me{}, errs.Unauthorized},
		{"", hubapi.Me{}, errs.Unauthorized},
	} {
		req, _ := http.NewRequest("GET", h.front.URL+"/api/v1/me", nil)
		req.Header.Set("Authorization", tc.header)
		var got hubapi.Me
		err := into(req, &got)
		if errs.KindOf(err) != tc.kind || (err != nil) != (tc.kind != 0) || got != tc.want {
			t.Errorf("%.40q: %+v, %v", tc.header, got, err)
		}
	}
	for _, secret := range []string{"alice-token", spawnerToken, "stolen"} {
		if strings.Contains(h.logged.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// strictly decodes an answer, in which nothing may be unknown.
func strictly(body io.Reader, into any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// into makes a request and decodes the answer, or the error.
func into(req *http.Request, out any) error {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		var body hubapi.ErrorBody
		if err := strictly(resp.Body, &body); err != nil {
			return err
		}
		if want := errs.RowOf(errs.ByCode(body.Error.Code)).Status; want != resp.StatusCode {
			return fmt.Errorf("code %s with status %d", body.Error.Code, resp.StatusCode)
		}
		return body.Err()
	}
	return strictly(resp.Body, out)
}

func TestAgentDoorActsAsItsWorkload(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), lab("s-bob", "bob", "/user/bob/"), job("j-alice", "alice")), nil)
	for _, tc := range []struct {
		id, request string
		status      int
		has         string
	}{
		{"s-alice", "GET /api/v1/me", 200, `"session":"s-alice"`},
		{"s-alice", "GET /api/v1/sessions/self", 200, `"id":"s-alice"`},
		{"s-alice", "GET /api/v1/sessions/s-bob", 404, "not_found"},
		{"s-alice", "GET /api/v1/sessions/j-alice", 404, "not_found"},
		{"s-alice", "GET /api/v1/jobs/j-alice", 200, `"state":"running"`},
		{"s-alice", "GET /healthz", 404, "not_found"},
		{"s-alice", "GET /user/bob/", 404, "not_found"},
		{"s-alice", "GET /metrics", 404, "not_found"},
		{"j-alice", "GET /api/v1/jobs/self", 200, `"id":"j-alice"`},
		{"j-alice", "GET /api/v1/sessions/s-alice", 404, "not_found"},
		{"s-gone", "GET /api/v1/me", 401, "unauthorized"},
		{"", "GET /api/v1/me", 401, "unauthorized"},
	} {
		// A token on top changes nothing: the connection says who is calling.
		status, body := raw(t, agentServer(t, h.AgentAPI(), tc.id), tc.request+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+spawnerToken+"\r\n\r\n")
		if status != tc.status || !strings.Contains(body, tc.has) {
			t.Errorf("%s through %q: %d %s", tc.request, tc.id, status, body)
		}
	}
}

func TestStartSession(t *testing.T) {
	h := start(t, newFake(), nil)
	got, err := h.client(t, spawnerToken).StartSession(t.Context(), hubapi.SessionRequest{
		User: "has@", ServerName: "lab", Options: map[string]any{"cpus": "2"}, Launch: "l1", Prefix: "/user/has%40/lab/",
		Env: map[string]string{"JUPYTERHUB_API_TOKEN": "geheim"}, Argv: []string{"jupyterhub-singleuser"},
	})
	if err != nil || got.ID != "s-new" || got.User != "has@" || got.Memory != "2G" || got.Waiting != "Waiting for room: number 2 in line; about 12 min, as things go" || got.Queue.Estimate != 720 || got.Up != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	want := spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "small", Image: "slipway/notebook:1", Prefix: "/user/has@/lab/",
		Ready: "/user/has%40/lab/api"}, Argv: []string{"jupyterhub-singleuser"}, Resources: spawner.Resources{CPUs: 2, Memory: 2 << 30, Pids: 4096}}
	r := h.engine.started[0]
	if diff := cmp.Diff(want, r.Spec); diff != "" || r.Secrets["JUPYTERHUB_API_TOKEN"] != "geheim" || r.Name != "lab" {
		t.Errorf("%+v\n%s", r, diff)
	}
	if strings.Contains(h.logged.String(), "geheim") {
		t.Error("the log holds a secret")
	}
}

func TestStartSessionRefuses(t *testing.T) {
	h := start(t, newFake(), nil)
	good := `"user":"a","launch":"l","argv":["x"]`
	for body, field := range map[string]string{
		`{` + good + `,"prefix":"/user/a/","options":{"gpu":1}}`:   "options.gpu",
		`{` + good + `,"prefix":"/user/a/","options":{"cpus":99}}`: "cpus",
		`{` + good + `,"prefix":"/user/a/","options":[]}`:          "options",
		`{` + good + `,"prefix":"/user/a/","option":{}}`:           "option",
		`{` + good + `,"prefix":"/user/a/","user":7}`:              "user",
		`{` + good + `,"prefix":"/user/a/","argv":"sh -c x"}`:      "argv",
		`{` + good + `,"prefix":"/user/a"}`:                        "prefix",
		`{` + good + `,"prefix":""}`:                               "prefix",
		`{` + good + `,"prefix":"/"}`:                              "prefix",
		`{` + good + `,"prefix":"/user/"}`:                         "prefix",
		`{` + good + `,"prefix":"/api/v1/user/a/"}`:                "prefix",
		`{` + good + `,"prefix":"/user/a/../b/"}`:                  "prefix",
		`{` + good + `,"prefix":"/user/a/%2e%2e/b/"}`:              "prefix",
		`{` + good + `,"prefix":"//evil/user/a/"}`:                 "prefix",
		`{` + good + `,"prefix":"/user/%zz/"}`:                     "prefix",
		`{` + good + `,"prefix":"/user/a/?x=/"}`:                   "prefix",
		`{` + good + `,"prefix":"/user/a/"} {}`:                    "",
		``:                                                         "",
		`null`:                                                     "prefix",
		`[]`:                                                       "body",
		`{`:                                                        "",
		`{"user":"` + strings.Repeat("x", 2<<20) + `"}`:            "body",
	} {
		req, _ := http.NewRequest("POST", h.front.URL+"/api/v1/sessions", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+spawnerToken)
		err := into(req, nil)
		kind := errs.Invalid
		if len(body) > web.BodyLimit {
			kind = errs.TooLarge
		}
		if e, ok := errors.AsType[*errs.Error](err); !ok || e.Kind != kind || e.Field != field || e.Remedy == "" {
			t.Errorf("%.80s: %#v, want field %q", body, err, field)
		}
	}
	if len(h.engine.started) > 0 {
		t.Error("a bad request reached the engine")
	}
}

func TestSessionRoutes(t *testing.T) {
	h := start(t, newFake(lab("s-1", "alice", "/user/alice/"), lab("s-2", "bob", "/user/bob/"), job("j-1", "alice")), nil)
	c := h.client(t, spawnerToken)
	all, err := c.Sessions(t.Context(), "", "")
	if err != nil || len(all) != 2 {
		t.Errorf("sessions: %+v, %v", all, err)
	}
	hers, err := c.Sessions(t.Context(), "alice", "")
	if err != nil || len(hers) != 1 || hers[0].Prefix != "/user/alice/" {
		t.Errorf("sessions of alice: %+v, %v", hers, err)
	}
	if text, err := c.SessionLog(t.Context(), "s-1", 3); err != nil || text != "line\nline\nline\n" {
		t.Errorf("log: %q, %v", text, err)
	}
	if s, err := c.StopSession(t.Context(), "s-1"); err != nil || s.Phase != "stopped" {
		t.Errorf("stop: %+v, %v", s, err)
	}
	if err := c.RemoveSession(t.Context(), "s-1"); err != nil {
		t.Error(err)
	}
	if err := c.RemoveSessionsOf(t.Context(), "bob", ""); err != nil {
		t.Error(err)
	}
	if left, err := c.Sessions(t.Context(), "", ""); err != nil || len(left) != 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
	if _, err := c.Session(t.Context(), "s-1"); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
	if _, err := c.Session(t.Context(), hubapi.Self); !errs.Is(err, errs.Invalid) {
		t.Error(err)
	}
	if form, err := c.SpawnForm(t.Context(), "alice"); err != nil || !strings.Contains(form, `name="profile"`) {
		t.Errorf("%s, %v", form, err)
	}
	if p, err := c.Profiles(t.Context()); err != nil || len(p) != 1 || p[0].MaxMemory != "4G" || p[0].Images[0].Title != "Python" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestWaitAnswersWhenTheStartIsSettled(t *testing.T) {
	w := lab("s-1", "alice", "/user/alice/")
	w.Phase = spawner.Starting
	h := start(t, newFake(w), nil)
	c := h.client(t, "alice-token")
	got := make(chan hubapi.Session)
	go func() {
		s, err := c.WaitSession(t.Context(), "s-1", "l1")
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	w.Phase = spawner.Booting
	h.engine.set(w)
	w.Phase = spawner.Running
	h.engine.set(w)
	if s := <-got; s.Phase != "running" {
		t.Errorf("%+v", s)
	}
	w.Phase, w.Outcome = spawner.Stopped, &spawner.Outcome{Failed: true, Reason: "no memory"}
	h.engine.set(w)
	if s, err := c.WaitSession(t.Context(), "s-1", "l1"); err != nil || s.Outcome == nil || s.Outcome.Reason != "no memory" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAwaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lab("s-1", "alice", "/user/alice/")
		w.Phase = spawner.Starting
		s := New(Config{Engine: newFake(w), Logger: quiet(), Hubs: []hubs.Hub{{Name: "main", APIURL: &url.URL{}, Identify: fakeIdentify}}})
		r, got := httptest.NewRequest("GET", "/api/v1/sessions/s-1/wait", nil), httptest.NewRecorder()
		r.Header.Set("Authorization", "token alice-token")
		began := time.Now()
		s.Public().ServeHTTP(got, r)
		if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `"phase":"starting"`) || time.Since(began) != 20*time.Second {
			t.Errorf("%d %s after %v", got.Code, got.Body, time.Since(began))
		}
	})
}

func TestEventsResume(t *testing.T) {
	h := start(t, newFake(lab("s-1", "alice", "/user/alice/")), nil)
	h.engine.steps = []spawner.Event{
		{Seq: 3, Launch: "old", Message: "of another start"}, {Seq: 5, Launch: "l1", Percent: 10, Message: "leased"},
		{Seq: 9, Launch: "l1", Percent: -1, Message: "line\nbreak"}, {Seq: 12, Launch: "l1", Percent: 100, Message: "ready", Final: true},
	}
	var got []string
	err := h.client(t, "alice-token").SessionEvents(t.Context(), "s-1", "l1", func(e hubapi.Event) error {
		got = append(got, fmt.Sprintf("%d %d %s %t", e.Seq, e.Percent, e.Message, e.Final))
		return nil
	})
	want := []string{"5 10 leased false", "9 -1 line\nbreak false", "12 100 ready true"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	req, _ := http.NewRequest("GET", h.front.URL+"/api/v1/sessions/s-1/events", nil)
	req.Header.Set("Authorization", "Bearer alice-token")
	req.Header.Set("Last-Event-ID", "9")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if s := string(b); strings.Count(s, "data:") != 1 || !strings.Contains(s, "id: 12\n") {
		t.Errorf("after 9: %q", s)
	}
}

func TestFreeze(t *testing.T) {
	h := start(t, newFake(lab("s-1", "alice", "/user/alice/")), func(cfg *Config) {
		cfg.Freeze = func(_ context.Context, c spawner.Caller, id spawner.ID, r hubapi.FreezeRequest, progress func(hubapi.Progress)) (hubapi.Environment, error) {
			progress(hubapi.Progress{Stage: "packing", Percent: 50, Bytes: 7})
			if r.Name == "bad" {
				return hubapi.Environment{}, errs.New(errs.NoSpace, "freeze %s: the disk is full", id).With("remove something")
			}
			if r.Name == "odd" {
				return hubapi.Environment{}, errors.New("open /secret/path: no")
			}
			return hubapi.Environment{Digest: "sha256:1", Name: r.Name, Note: string(c.User)}, nil
		}
	})
	c := h.client(t, "alice-token")
	var steps []hubapi.Progress
	env, err := c.Freeze(t.Context(), "s-1", hubapi.FreezeRequest{Name: "mine"}, func(p hubapi.Progress) { steps = append(steps, p) })
	if err != nil || env.Name != "mine" || env.Note != "alice" || len(steps) != 1 || steps[0].Bytes != 7 {
		t.Errorf("%+v, %v, %v", env, steps, err)
	}
	_, err = c.Freeze(t.Context(), "s-1", hubapi.FreezeRequest{Name: "bad"}, func(hubapi.Progress) {})
	if e, ok := errors.AsType[*errs.Error](err); !ok || e.Kind != errs.NoSpace || e.Remedy != "remove something" {
		t.Errorf("%v", err)
	}
	_, err = c.Freeze(t.Context(), "s-1", hubapi.FreezeRequest{Name: "odd"}, func(hubapi.Progress) {})
	if !errs.Is(err, errs.Internal) || strings.Contains(err.Error(), "secret") || !strings.Contains(h.logged.String(), "/secret/path") {
		t.Errorf("%v", err)
	}
}

// TestCommandIsItsOwners holds what a job runs to its owner, and lists to be light.
func TestCommandIsItsOwners(t *testing.T) {
	w := point(0, spawner.Stopped, &spawner.Outcome{Tail: "much", Failed: true})
	w.Spec.Argv = []string{"sh", "--password=geheim"}
	h := start(t, newFake(w), nil)
	for token, want := range map[string][]string{"alice-token": w.Spec.Argv, "root-token": nil} {
		c := h.client(t, token)
		one, err := c.Job(t.Context(), "j-0")
		if err != nil || !cmp.Equal(one.Argv, want) || one.Outcome.Tail != "much" {
			t.Errorf("%s: %+v, %v", token, one, err)
		}
		all, err := c.Jobs(t.Context(), hubapi.JobFilter{})
		points, err2 := c.Points(t.Context(), "scan-1")
		if err != nil || err2 != nil || len(all) != 1 || len(points.Jobs) != 1 {
			t.Fatal(err, err2, len(all), len(points.Jobs))
		}
		for _, j := range []hubapi.Job{all[0], points.Jobs[0]} {
			if j.Argv != nil || j.Outcome.Tail != "" || !j.Outcome.Failed || j.Parameters["k"] != "0" {
				t.Errorf("%s lists %+v", token, j)
			}
		}
	}
	if w.Outcome.Tail != "much" {
		t.Error("the record itself was changed")
	}
}

func TestJobRoutes(t *testing.T) {
	h := start(t, newFake(job("j-1", "alice")), nil)
	h.engine.log = "0123456789"
	c := h.client(t, "alice-token")
	got, err := c.Submit(t.Context(), hubapi.JobRequest{JobSpec: hubapi.JobSpec{
		Environment: "mine", Argv: []string{"python"},
	}, JobInputs: hubapi.JobInputs{Files: map[string][]byte{"a.py": []byte("x\x00")}},
		JobLimits: hubapi.JobLimits{Memory: "2G", TimeLimit: "90m"}, RequestID: "r1", Env: map[string]string{"A": "b"}})
	if err != nil || got.ID != "j-new" || got.State != hubapi.JobPending {
		t.Fatalf("%+v, %v", got, err)
	}
	want := spawner.JobRequest{Spec: spawner.Spec{Environment: "mine", Argv: []string{"python"}, Env: map[string]string{"A": "b"},
		Resources: spawner.Resources{CPUs: 1, Memory: 2 << 30, Pids: 4096}, JobSpec: spawner.JobSpec{TimeLimit: 90 * time.Minute}}, Files: map[string][]byte{"a.py": []byte("x\x00")}, RequestID: "r1"}
	if diff := cmp.Diff(want, h.engine.jobs[0], cmpopts.IgnoreUnexported(spawner.JobRequest{})); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Submit(t.Context(), hubapi.JobRequest{
		JobLimits: hubapi.JobLimits{Memory: "9G"},
	}); !errs.Is(err, errs.Invalid) {
		t.Error(err)
	}
	var log bytes.Buffer
	if err := c.JobLog(t.Context(), "j-1", 4, false, &log); err != nil || log.String() != "456789" {
		t.Errorf("%q, %v", log.String(), err)
	}
	files, err := c.JobFiles(t.Context(), "j-1")
	if err != nil || len(files) != 1 {
		t.Fatalf("%+v, %v", files, err)
	}
	var content bytes.Buffer
	if err := c.JobFile(t.Context(), "j-1", files[0].Name, &content); err != nil || content.String() != "hello" {
		t.Errorf("%q, %v", content.String(), err)
	}
	if err := c.RemoveJob(t.Context(), "j-1"); !errs.Is(err, errs.Conflict) {
		t.Error(err)
	}
	if _, err := c.CancelJob(t.Context(), "j-1"); err != nil {
		t.Error(err)
	}
	if err := c.RemoveJob(t.Context(), "j-1"); err != nil {
		t.Error(err)
	}
	if list, err := c.Jobs(t.Context(), hubapi.JobFilter{}); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// breaking gives some bytes, then breaks.
type breaking struct{ io.Reader }

func (breaking) Close() error { return nil }

func TestJobLogGoesOnWhereItBroke(t *testing.T) {
	h := start(t, newFake(job("j-1", "alice")), nil)
	const text = "the whole log of a job"
	tries := 0
	h.engine.logs = func(from int64, follow bool) io.ReadCloser {
		tries++
		switch tries {
		case 1: // breaks
			return breaking{io.MultiReader(strings.NewReader(text[from:from+5]), errReader{})}
		case 2: // ends cleanly while the job runs: the service was stopped
			return breaking{strings.NewReader(text[from : from+5])}
		}
		w := job("j-1", "alice")
		w.Phase, w.Outcome = spawner.Stopped, &spawner.Outcome{}
		h.engine.set(w)
		return breaking{strings.NewReader(text[from:])}
	}
	var got bytes.Buffer
	if err := h.client(t, "alice-token").JobLog(t.Context(), "j-1", 0, true, &got); err != nil || got.String() != text || tries != 3 {
		t.Errorf("%q after %d tries, %v", got.String(), tries, err)
	}
}

// A reader who comes back behind a try gets the output of the next from its start.
func TestJobLogOfTheNextTry(t *testing.T) {
	h := start(t, newFake(job("j-1", "alice")), nil)
	const next = "the second try prints this"
	tries := 0
	h.engine.logs = func(from int64, follow bool) io.ReadCloser {
		if tries++; tries == 1 {
			return breaking{io.MultiReader(strings.NewReader("first: "), errReader{})}
		}
		w := job("j-1", "alice")
		w.Phase, w.Outcome, w.Attempt = spawner.Stopped, &spawner.Outcome{}, 1
		h.engine.set(w)
		return breaking{strings.NewReader(next[from:])}
	}
	var got bytes.Buffer
	if err := h.client(t, "alice-token").JobLog(t.Context(), "j-1", 0, true, &got); err != nil || got.String() != "first: "+next {
		t.Errorf("%q, %v", got.String(), err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestHealth(t *testing.T) {
	engine := newFake()
	h := start(t, engine, func(cfg *Config) {
		cfg.Checks = []Check{{"docker", func(context.Context) error { return errors.New("no socket") }}, {"store", func(context.Context) error { return nil }}}
	})
	if status, body := h.get(t, "/healthz", nil); status != 200 || body != "ok\n" {
		t.Errorf("%d %q", status, body)
	}
	engine.notReady = errors.New("looking at what runs")
	if status, body := h.get(t, "/readyz", nil); status != 503 || body != "not ready\nengine: looking at what runs\ndocker: no socket\n" {
		t.Errorf("%d %q", status, body)
	}
}

func TestReadinessIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := newReadiness(newFake(), []Check{{"x", func(context.Context) error { asked++; return nil }}})
		for range 5 {
			r.lacks(t.Context())
		}
		time.Sleep(checkAge + time.Second)
		r.lacks(t.Context())
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestPanicIsAnInternalError(t *testing.T) {
	h := start(t, newFake(lab("s-1", "alice", "/user/alice/")), func(cfg *Config) {
		cfg.Environments = nil
		cfg.Hubs[0].Identify = nil
	})
	req, _ := http.NewRequest("GET", h.front.URL+"/api/v1/me", nil)
	req.Header.Set("Authorization", "Bearer x")
	if err := into(req, nil); !errs.Is(err, errs.Internal) || strings.Contains(err.Error(), "nil pointer") || !strings.Contains(h.logged.String(), "panic in a handler") {
		t.Errorf("%v", err)
	}
}
