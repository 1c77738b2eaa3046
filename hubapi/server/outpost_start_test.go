package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/hubapi/server/hubs"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

func TestOutpostStartAsksTheEngine(t *testing.T) {
	fake := newFake()
	h := withOutpost(t, fake, func(cfg *Config) {
		big := cfg.Catalogue.Profiles[0]
		big.Name, big.Default = "big", false
		cfg.Catalogue.Profiles = append(cfg.Catalogue.Profiles, big)
	})
	usual := spawner.SessionRequest{
		User: "alice", Kind: spawner.Lab, Launch: startID,
		Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "small", Image: "slipway/notebook:1", Prefix: "/user/alice/", Ready: "/user/alice/api",
			EventsURL: "http://hub:8081/hub/api/users/progress/events/alice"}, Argv: []string{"jupyterhub-singleuser"},
			Env: map[string]string{"JUPYTERHUB_USER_ID": "1"}, Resources: spawner.Resources{CPUs: 1, Memory: 2 << 30, Pids: 4096}},
		Secrets: control.Env{
			"JUPYTERHUB_USER": "alice", "JUPYTERHUB_SERVER_NAME": "", "JUPYTERHUB_SERVICE_PREFIX": "/user/alice/", "JUPYTERHUB_API_TOKEN": "the-session-token",
			"JUPYTERHUB_USER_ID": "1", "JUPYTERHUB_EVENTS_URL": "http://hub:8081/hub/api/users/progress/events/alice",
		},
	}
	but := func(change func(*spawner.SessionRequest)) spawner.SessionRequest {
		r := usual
		change(&r)
		return r
	}
	profile := func(name string) spawner.SessionRequest {
		return but(func(r *spawner.SessionRequest) { r.Spec.Profile = name })
	}
	all := func(changes ...func(map[string]any)) func(map[string]any) {
		return func(b map[string]any) {
			for _, change := range changes {
				change(b)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(map[string]any)
		want   spawner.SessionRequest
	}{
		{"the published client", nil, usual},
		{"no flavor", set("user_options.flavor", nil), usual},
		{"a flavor", set("user_options.flavor", "big"), profile("big")},
		{"a flavor of a form", set("user_options.flavor", []string{"big"}), profile("big")},
		{"a flavor at the top", all(set("user_options.flavor", nil), set("flavor", "big")), profile("big")},
		{"a flavor before one at the top", set("flavor", "big"), usual},
		{"a profile", all(set("user_options.flavor", ""), set("user_options.profile", []string{"big"})), profile("big")},
		{"a flavor before a profile of the site", set("user_options.profile", "JupyterLab/4"), usual},
		{"more of it", all(set("user_options.cpus", "2"), set("user_options.memory", []string{"4G"}), set("user_options.fresh", "yes"), set("user_options.image", "notebook")),
			but(func(r *spawner.SessionRequest) {
				r.Spec.Resources.CPUs, r.Spec.Resources.Memory, r.Fresh = 2, 4<<30, true
			})},
		{"null", all(set("certs", json.RawMessage("null")), set("user_options.memory", json.RawMessage("null"))), usual},
		{"fields to come", all(set("authentication", map[string]any{"groups": []string{"a"}}), set("new", 1), set("misc.new", 1)), usual},
		{"an empty command", all(set("misc.cmd", []string{}), set("misc.args", "")), usual},
		{"the long way to an id", set("user_options.start_id", "A-"+strings.Repeat("z", 62)), but(func(r *spawner.SessionRequest) { r.Launch = "A-" + strings.Repeat("z", 62) })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake.started, fake.work = nil, map[spawner.ID]spawner.Workload{}
			if status, got := h.ask(t, "POST", "/services", "", started(tc.change)); status != 200 {
				t.Fatalf("%d %s", status, got)
			}
			if diff := cmp.Diff([]spawner.SessionRequest{tc.want}, fake.started); diff != "" {
				t.Error(diff)
			}
		})
	}
	if log := h.logged.String(); strings.Contains(log, "the-session-token") || strings.Contains(log, "the-flavors-token") {
		t.Error("a token stands in the log")
	}
}

// TestSessionsLeaveActivityToTheService: by either door, and only where the service does tell the Hub.
func TestSessionsLeaveActivityToTheService(t *testing.T) {
	for _, tells := range []bool{false, true} {
		fake := newFake()
		h := withOutpost(t, fake, func(cfg *Config) { cfg.Hubs[0].Activity = tells })
		h.ask(t, "POST", "/services", "", started(nil))
		_, err := h.client(t, spawnerToken).StartSession(t.Context(), hubapi.SessionRequest{User: "bob", Launch: "l", Prefix: "/user/bob/", Argv: []string{"x"}})
		if err != nil || len(fake.started) != 2 {
			t.Fatalf("%d starts, %v", len(fake.started), err)
		}
		for _, r := range fake.started {
			if interval, told := r.Secrets["JUPYTERHUB_ACTIVITY_INTERVAL"]; told != tells || told && interval != "0" {
				t.Errorf("the service tells: %v, the session of %s: %q", tells, r.User, interval)
			}
		}
	}
}

func TestOutpostStartOfANamedServer(t *testing.T) {
	fake := newFake()
	h := withOutpost(t, fake, func(c *Config) { c.Hubs[0].APIURL = &url.URL{Path: "/base/hub/api"} })
	body := started(func(b map[string]any) {
		set("name", "my lab")(b)
		set("env.JUPYTERHUB_USER", "has@ä")(b)
		set("env.JUPYTERHUB_SERVER_NAME", "my lab")(b)
		set("env.JUPYTERHUB_SERVICE_PREFIX", "/base/user/has@%C3%A4/my%20lab/")(b)
		set("env.JUPYTERHUB_EVENTS_URL", nil)(b)
	})
	if status, got := h.ask(t, "POST", "/services", "", body); status != 200 {
		t.Fatalf("%d %s", status, got)
	}
	got := fake.started[0]
	if got.User != "has@ä" || got.Name != "my lab" || got.Spec.Prefix != "/base/user/has@ä/my lab/" || got.Spec.Ready != "/base/user/has@%C3%A4/my%20lab/api" ||
		got.Spec.EventsURL != "" {
		t.Errorf("%+v", got)
	}
}

func TestOutpostRefusesBadStarts(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, tc := range []struct {
		name, body string
		status     int
		want       string // stands in the answer
	}{
		{"nothing", "", 422, `"loc":["body"]`},
		{"null", "null", 422, `"loc":["body"]`},
		{"a list", "[]", 422, "JSON object"},
		{"text", `"x"`, 422, "JSON object"},
		{"half", started(nil)[:200], 422, `"loc":["body"]`},
		{"two", started(nil) + "{}", 422, `"loc":["body"]`},
		{"deep", `{"user_options":{"x":` + deep + `}}`, 422, `"loc":["body"]`},
		{"name", started(set("name", 5)), 422, `"loc":["body","name"]`},
		{"env is a list", started(set("env", []int{1})), 422, `"loc":["body","env"]`},
		{"env has a number", started(set("env.X", 17)), 422, `"loc":["body","env"`},
		{"env has an object", started(set("env.X", map[string]int{"secret": 1})), 422, `"loc":["body","env"`},
		{"user_options", started(set("user_options", "x")), 422, `"loc":["body","user_options"]`},
		{"start_id of a wrong type", started(set("user_options.start_id", 5)), 422, `"loc":["body","user_options","start_id"]`},
		{"start_id with a slash", started(set("user_options.start_id", "a/b")), 422, `"loc":["body","user_options","start_id"]`},
		{"start_id with a line feed", started(set("user_options.start_id", "a\n")), 422, `"loc":["body","user_options","start_id"]`},
		{"long start_id", started(set("user_options.start_id", strings.Repeat("a", 65))), 422, `"loc":["body","user_options","start_id"]`},
		{"misc", started(set("misc", []string{"x"})), 422, `"loc":["body","misc"]`},
		{"certs", started(set("certs", "x")), 422, `"loc":["body","certs"]`},
		{"flavor at the top", started(set("flavor", 3)), 422, `"loc":["body","flavor"]`},
		{"no user", started(set("env.JUPYTERHUB_USER", nil)), 422, `"loc":["body","env","JUPYTERHUB_USER"]`},
		{"no prefix", started(set("env.JUPYTERHUB_SERVICE_PREFIX", nil)), 422, `"loc":["body","env","JUPYTERHUB_SERVICE_PREFIX"]`},
		{"no env", started(set("env", nil)), 422, `"loc":["body","env","JUPYTERHUB_USER"]`},
		{"events elsewhere", started(set("env.JUPYTERHUB_EVENTS_URL", "file:///etc/passwd")), 422, `"loc":["body","env","JUPYTERHUB_EVENTS_URL"]`},
		{"events nowhere", started(set("env.JUPYTERHUB_EVENTS_URL", "http://")), 422, `"loc":["body","env","JUPYTERHUB_EVENTS_URL"]`},
		{"10 MB options", started(set("user_options.x", strings.Repeat("x", 10<<20))), 413, "at most 1 MiB"},

		{"unknown flavor", started(set("user_options.flavor", "huge")), 419, `"args":["flavor: \"huge\" is not valid: one of small"]`},
		{"unknown profile", started(func(b map[string]any) { set("user_options.flavor", nil)(b); set("user_options.profile", "huge")(b) }), 419,
			`"args":["profile: \"huge\" is not valid: one of small"]`},
		{"flavor of a wrong type", started(set("user_options.flavor", map[string]int{"a": 1})), 419, `slipway.","class":"Invalid"`},
		{"too many cpus", started(set("user_options.cpus", 64)), 419, "at most 2"},
		{"no memory", started(set("user_options.memory", "lots")), 419, "memory"},
		{"fresh?", started(set("user_options.fresh", "perhaps")), 419, "yes or no"},
		{"unknown image", started(set("user_options.image", "<script>\r\nalert(1)</script>")), 419, `image: \"'script'\\r\\nalert(1)'/script'\"`},
		{"a job", started(set("misc.cmd", []string{"papermill"})), 419, "slipway submit"},
		{"arguments", started(set("misc.args", "x")), 419, "slipway submit"},
		{"internal_ssl", started(set("certs", map[string]string{"keyfile": "-----BEGIN PRIVATE KEY-----"})), 419, "c.JupyterHub.internal_ssl does not work"},
		{"internal_ssl without certificates", started(set("misc.internal_ssl", true)), 419, "c.JupyterHub.internal_ssl does not work"},
		{"another's path", started(set("env.JUPYTERHUB_SERVICE_PREFIX", "/user/bob/")), 419, "JUPYTERHUB_SERVICE_PREFIX"},
		{"another server's path", started(set("env.JUPYTERHUB_SERVICE_PREFIX", "/user/alice/lab/")), 419, "JUPYTERHUB_SERVICE_PREFIX"},
		{"another server's name", started(set("env.JUPYTERHUB_SERVER_NAME", "lab")), 419, "JUPYTERHUB_SERVER_NAME"},
		{"a name without a path", started(func(b map[string]any) { set("name", "lab")(b); set("env.JUPYTERHUB_SERVER_NAME", "lab")(b) }), 419, "JUPYTERHUB_SERVICE_PREFIX"},
		{"the service's path", started(set("env.JUPYTERHUB_SERVICE_PREFIX", "/services/user/alice/")), 419, "prefix"},
		{"the API's path", started(set("env.JUPYTERHUB_SERVICE_PREFIX", "/api/v1/user/alice/")), 419, "prefix"},
		{"dots in the path", started(set("env.JUPYTERHUB_SERVICE_PREFIX", "/user/bob/../user/alice/")), 419, "prefix"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := newFake()
			h := withOutpost(t, fake, nil)
			status, got := h.ask(t, "POST", "/services", "", tc.body)
			if status != tc.status || !strings.Contains(got, tc.want) || len(fake.started) > 0 || len(got) > 1000 {
				t.Errorf("%d %s\nwant %d and %s", status, got, tc.status, tc.want)
			}
			if strings.Contains(got, "PRIVATE") || strings.Contains(got, "the-session-token") || strings.Contains(h.logged.String(), "the-session-token") {
				t.Error("a secret is told")
			}
			if status == 419 {
				checkFailure(t, got)
			}
		})
	}
}

// checkFailure holds an answer against what the Hub can show: one line of ASCII without markup.
func checkFailure(t *testing.T, got string) {
	t.Helper()
	var f struct {
		Module, Class, Traceback string
		Args                     []string
		Kwargs                   map[string]string
	}
	d := json.NewDecoder(strings.NewReader(got))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil || f.Module != "slipway." || f.Class == "" || f.Traceback != "" || len(f.Args) != 1 || f.Kwargs == nil {
		t.Fatalf("%v: %s", err, got)
	}
	if bad := strings.ContainsFunc(f.Args[0], func(r rune) bool { return r < ' ' || r > '~' || r == '<' || r == '>' }); bad || f.Args[0] == "" || len(f.Args[0]) > 403 {
		t.Errorf("the Hub shows Unknown for %q", f.Args[0])
	}
}

func TestOutpostTellsWhyTheEngineRefuses(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{errs.New(errs.OverQuota, "never fits").With("choose\n<b>less</b>"), `{"module":"slipway.","class":"OverQuota","traceback":"","args":["never fits: choose 'b'less'/b'"],"kwargs":{}}`},
		{errs.New(errs.Unavailable, "the previous start of s-x does not end").With("try again in a minute"),
			`{"module":"slipway.","class":"Conflict","traceback":"","args":["the previous start of s-x does not end: try again in a minute"],"kwargs":{}}`},
		{errs.Bad("user", "ä\x00", "no control characters"), `{"module":"slipway.","class":"Invalid","traceback":"","args":["user: \"?\\x00\" is not valid: no control characters"],"kwargs":{}}`},
	} {
		fake := newFake()
		fake.starting = func(context.Context) error { return tc.err }
		h := withOutpost(t, fake, nil)
		if status, got := h.ask(t, "POST", "/services", "", started(nil)); status != 419 || got != tc.want {
			t.Errorf("%d %s\nwant %s", status, got, tc.want)
		}
	}
	fake := newFake()
	fake.starting = func(context.Context) error { return errors.New("open /secret/path: disk on fire") }
	h := withOutpost(t, fake, nil)
	status, got := h.ask(t, "POST", "/services", "", started(nil))
	if status != 419 || strings.Contains(got, "secret") || !strings.Contains(got, "slipway.\",\"class\":\"Internal") || !strings.Contains(h.logged.String(), "/secret/path") {
		t.Errorf("%d %s", status, got)
	}
	checkFailure(t, got)
}

func TestOutpostAddress(t *testing.T) {
	for _, tc := range []struct{ first, configured, want string }{
		{"POST /services HTTP/1.1\r\nHost: slipway.example:8888", "", "slipway.example:8888"},
		{"POST /services HTTP/1.1\r\nHost: slipway.example", "", "slipway.example:80"},
		{"POST http://10.0.0.7:1/services HTTP/1.1\r\nHost: other", "", "10.0.0.7:1"},
		{"POST /services HTTP/1.0\r\nHost: old", "", "old:80"},
		{"POST /services HTTP/1.0", "", ""},
		{"POST /services HTTP/1.1\r\nHost: ", "", ""},
		{"POST /services HTTP/1.1\r\nHost: [::1]:8888", "", ""},
		{"POST /services HTTP/1.1\r\nHost: a:b:8888", "", ""},
		{"POST /services HTTP/1.1\r\nHost: there:http", "", ""},
		{"POST /services HTTP/1.1\r\nHost: [::1]:8888", "proxy:1", "proxy:1"},
		{"POST /services HTTP/1.1\r\nHost: x\r\nX-Forwarded-Host: evil", "", "x:80"},
	} {
		fake := newFake()
		h := withOutpost(t, fake, func(cfg *Config) { cfg.Hubs[0].OutpostAddress = tc.configured })
		body := started(nil)
		resp, got := h.raw(t, fmt.Sprintf("%s\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", tc.first, basic("main", outpostPassword), len(body), body))
		switch {
		case tc.want != "" && (resp.StatusCode != 200 || strings.TrimSpace(got) != `{"service":"`+tc.want+`"}`):
			t.Errorf("%q: %d %s, want %s", tc.first, resp.StatusCode, got, tc.want)
		case tc.want == "" && (resp.StatusCode != 419 || !strings.Contains(got, "outpost.address of hub main") || len(fake.started) > 0):
			t.Errorf("%q: %d %s", tc.first, resp.StatusCode, got)
		}
	}
}

func TestOutpostStartIDsAreUsedOnce(t *testing.T) {
	usual := func(change func(*spawner.Workload)) spawner.Workload {
		w := outpostSession("s-old", "main", "alice", startID, spawner.Booting)
		w.Spec = spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "small", Image: "slipway/notebook:1", Prefix: "/user/alice/",
			EventsURL: "http://hub:8081/hub/api/users/progress/events/alice"}, Argv: []string{"jupyterhub-singleuser"}, Resources: spawner.Resources{CPUs: 1, Memory: 2 << 30, Pids: 4096}}
		if change != nil {
			change(&w)
		}
		return w
	}
	for name, tc := range map[string]struct {
		before spawner.Workload
		want   string // empty: the same answer again
	}{
		"the same again":     {usual(nil), ""},
		"it runs already":    {usual(func(w *spawner.Workload) { w.Phase = spawner.Running }), ""},
		"another user":       {usual(func(w *spawner.Workload) { w.Owner = "bob" }), "another server"},
		"another server":     {usual(func(w *spawner.Workload) { w.Name = "lab" }), "another server"},
		"other limits":       {usual(func(w *spawner.Workload) { w.Spec.Resources.CPUs = 2 }), "other options"},
		"another profile":    {usual(func(w *spawner.Workload) { w.Spec.Profile = "big" }), "other options"},
		"it has ended":       {usual(func(w *spawner.Workload) { w.Phase = spawner.Stopped }), "has ended"},
		"it is being ended":  {usual(func(w *spawner.Workload) { w.Want = spawner.WantStopped }), "has ended"},
		"it is being undone": {usual(func(w *spawner.Workload) { w.Phase, w.Want = spawner.Removing, spawner.WantGone }), "has ended"},
	} {
		fake := newFake(tc.before)
		h := withOutpost(t, fake, nil)
		status, got := h.ask(t, "POST", "/services", "", started(nil))
		if tc.want == "" && (status != 200 || got != `{"service":"slipway.example:8888"}`) || tc.want != "" && (status != 419 || !strings.Contains(got, tc.want)) {
			t.Errorf("%s: %d %s", name, status, got)
		}
		if len(fake.started) > 0 || fake.work["s-old"].Phase != tc.before.Phase {
			t.Errorf("%s: something was started or changed", name)
		}
	}
}

// TestOutpostConcurrentStarts: of many requests with one id one starts, and all get the same answer.
func TestOutpostConcurrentStarts(t *testing.T) {
	fake := newFake()
	h := withOutpost(t, fake, nil)
	var all sync.WaitGroup
	statuses := make(chan int, 30)
	for i := range 30 {
		all.Go(func() {
			body := started(nil)
			if i%3 == 2 {
				body = strings.ReplaceAll(body, "alice", "bob")
			}
			status, _ := h.ask(t, "POST", "/services", "", body)
			statuses <- status
		})
	}
	all.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if len(fake.started) != 1 || count[200]+count[419] != 30 || count[200] != 20 && count[200] != 10 {
		t.Errorf("%d starts, answers %v", len(fake.started), count)
	}
}

// TestOutpostStopOvertakesStart: whatever the order, nothing is left.
func TestOutpostStopOvertakesStart(t *testing.T) {
	t.Run("before it is asked for", func(t *testing.T) { // which it is not: an id that nobody has started is anybody's
		h := withOutpost(t, newFake(), nil)
		for _, name := range []string{"", "lab"} {
			if status, _ := h.ask(t, "DELETE", "/services/"+name+"/"+startID, "", ""); status != 404 {
				t.Errorf("stop: %d", status)
			}
		}
		if status, got := h.ask(t, "POST", "/services", "", started(nil)); status != 200 || len(h.engine.started) != 1 {
			t.Errorf("start: %d %s", status, got)
		}
	})
	for name, obeys := range map[string]bool{"while it waits": true, "while it cannot be held up": false} {
		t.Run(name, func(t *testing.T) {
			fake := newFake()
			h := withOutpost(t, fake, nil)
			asked, goOn := make(chan context.Context, 1), make(chan struct{})
			fake.starting = func(ctx context.Context) error {
				asked <- ctx
				if !obeys {
					<-goOn
					return nil
				}
				<-ctx.Done()
				return errs.New(errs.Unavailable, "the previous start does not end: %w", ctx.Err())
			}
			answer := make(chan string)
			go func() {
				status, got := h.ask(t, "POST", "/services", "", started(nil))
				answer <- fmt.Sprint(status, got)
			}()
			starting := <-asked
			if status, got := h.ask(t, "GET", "/services//"+startID, "", ""); status != 200 || got != `{"status":null}` {
				t.Errorf("poll: %d %s", status, got)
			}
			stopped := make(chan string)
			go func() {
				status, got := h.ask(t, "DELETE", "/services//"+startID, "", "")
				stopped <- fmt.Sprint(status, got)
			}()
			<-starting.Done() // the stop has overtaken it
			close(goOn)
			if got := <-answer; !strings.HasPrefix(got, "419") || !strings.Contains(got, "already been stopped") {
				t.Errorf("start: %s", got)
			}
			if got := <-stopped; got != "200{}" {
				t.Errorf("stop: %s", got)
			}
			for _, w := range fake.work {
				if w.Phase.Active() {
					t.Errorf("left behind: %+v", w)
				}
			}
		})
	}
}

// outpostServer is a server without a listener, for tests whose clock stands still.
func outpostServer(fake Engine) *Server { return New(outpostConfig(fake)) }

func outpostConfig(fake Engine) Config {
	return Config{Engine: fake, Logger: quiet(), Hubs: []hubs.Hub{{
		Name: "main", APIURL: &url.URL{Path: "/hub/api"}, Outpost: []hubs.Credential{{Username: "main", Password: secret.New(outpostPassword)}}}},
		Catalogue: catalog.Catalogue{Images: []catalog.ImageChoice{{Name: "n", Ref: "r"}},
			Profiles: []catalog.Profile{{Name: "small", Kind: spawner.Lab, Images: []string{"n"}, CPUs: 1, Memory: 1 << 30, Default: true}}}}
}

// TestOutpostStopIsBounded: the Hub's client gives up after 20 s, and would believe that the stop has failed.
func TestOutpostStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake(outpostSession("s-run", "main", "eve", "run", spawner.Running))
		fake.stopping = spawner.Stopping
		s := outpostServer(fake)
		defer s.Web.End()
		for _, tc := range []struct {
			headers string
			took    time.Duration
		}{{"async", 0}, {"", 15 * time.Second}} {
			began := time.Now()
			w := httptest.NewRecorder()
			r := httptest.NewRequest("DELETE", "/services//run", nil)
			r.SetBasicAuth("main", outpostPassword)
			r.Header.Set("Execution-Type", tc.headers)
			s.Public().ServeHTTP(w, r)
			if took := time.Since(began); took != tc.took || w.Code >= 300 {
				t.Errorf("%q took %v: %d %s", tc.headers, took, w.Code, w.Body)
			}
		}
		go func() {
			time.Sleep(time.Second)
			fake.set(ended("s-run", "run", nil))
		}()
		began := time.Now()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("DELETE", "/services//run", nil)
		r.SetBasicAuth("main", outpostPassword)
		s.Public().ServeHTTP(w, r)
		if took := time.Since(began); took != time.Second || w.Code != 200 {
			t.Errorf("took %v: %d", took, w.Code)
		}
	})
}

// TestOutpostStartIsBounded: so is a start that waits for the end of the one before.
func TestOutpostStartIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake()
		fake.starting = func(ctx context.Context) error {
			<-ctx.Done()
			return errs.New(errs.Unavailable, "the previous start does not end: %w", ctx.Err())
		}
		s := outpostServer(fake)
		defer s.Web.End()
		began := time.Now()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/services", strings.NewReader(started(nil)))
		r.SetBasicAuth("main", outpostPassword)
		s.Public().ServeHTTP(w, r)
		if took := time.Since(began); took != 15*time.Second || w.Code != 419 || !strings.Contains(w.Body.String(), "previous start") {
			t.Errorf("took %v: %d %s", took, w.Code, w.Body)
		}
	})
}
