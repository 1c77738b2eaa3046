package server

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi/server/hubs"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
)

const (
	outpostPassword = "the-outpost-password"
	startID         = "0123456789abcdef0123456789abcdef"
)

// basic is the header of a hub's OutpostSpawner.
func basic(username, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password)) + "\r\n"
}

// withOutpost starts a server with the hubs "main" (credentials main and main2) and "other".
func withOutpost(t testing.TB, engine *fakeEngine, change func(*Config)) *harness {
	return start(t, engine, func(cfg *Config) {
		cfg.Hubs[0].Outpost = []hubs.Credential{{Username: "main", Password: secret.New(outpostPassword)}, {Username: "main2", Password: secret.New("rotated")}, {Username: "void", Password: secret.Text{}}}
		api, _ := url.Parse("http://127.0.0.1:2/hub/api")
		cfg.Hubs = append(cfg.Hubs, hubs.Hub{Name: "other", APIURL: api, Identify: fakeIdentify, Outpost: []hubs.Credential{{Username: "other", Password: secret.New("others")}}})
		if change != nil {
			change(cfg)
		}
	})
}

// raw sends bytes as they stand and gives the answer.
func (h *harness) raw(t testing.TB, request string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", h.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

// ask sends a request with main's credential, its target as it stands.
func (h *harness) ask(t testing.TB, method, target, headers, body string) (int, string) {
	t.Helper()
	resp, got := h.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: slipway.example:8888\r\nConnection: close\r\n%s%sContent-Length: %d\r\n\r\n%s",
		method, target, basic("main", outpostPassword), headers, len(body), body))
	if !json.Valid([]byte(got)) {
		t.Errorf("%s %s: the body is no JSON: %q", method, target, got)
	}
	return resp.StatusCode, strings.TrimSpace(got)
}

// outpostSession is a session as an OutpostSpawner has started it.
func outpostSession(id spawner.ID, hub string, owner spawner.User, launch string, phase spawner.Phase) spawner.Workload {
	w := lab(id, owner, "/user/"+string(owner)+"/")
	w.Hub, w.Launch, w.Phase = hub, launch, phase
	return w
}

// startOf is a session of a server with a name.
func startOf(name, launch string) spawner.Workload {
	w := outpostSession(spawner.ID("s-of-"+name+launch), "main", "nan", launch, spawner.Running)
	w.Name = name
	return w
}

func ended(id spawner.ID, launch string, o *spawner.Outcome) spawner.Workload {
	w := outpostSession(id, "main", "bob", launch, spawner.Stopped)
	w.Want, w.Outcome = spawner.WantStopped, o
	return w
}

// started is a body as the published client sends it, changed by the test.
func started(change func(body map[string]any)) string {
	body := map[string]any{
		"name": "",
		"env": map[string]any{
			"JUPYTERHUB_USER": "alice", "JUPYTERHUB_SERVER_NAME": "", "JUPYTERHUB_SERVICE_PREFIX": "/user/alice/", "JUPYTERHUB_API_TOKEN": "the-session-token",
			"JUPYTERHUB_SERVICE_URL": "http://0.0.0.0:4711/user/alice/", "JUPYTERHUB_USER_ID": "1", "JUPYTERHUB_FLAVORS_UPDATE_TOKEN": "the-flavors-token",
			"JUPYTERHUB_EVENTS_URL": "http://hub:8081/hub/api/users/progress/events/alice",
		},
		"user_options": map[string]any{"start_id": startID, "flavor": "small", "site": map[string]any{"x": 1}},
		"misc": map[string]any{"dns_name_template": "x", "pod_name_template": "y", "internal_ssl": false, "ip": "0.0.0.0", "port": 4711,
			"services_enabled": true, "extra_labels": map[string]any{}},
		"certs": map[string]any{}, "internal_trust_bundles": map[string]any{},
	}
	if change != nil {
		change(body)
	}
	b, _ := json.Marshal(body)
	return string(b)
}

// set puts a value below the fields that path names.
func set(path string, value any) func(map[string]any) {
	return func(body map[string]any) {
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			body = body[name].(map[string]any)
		}
		if body[names[len(names)-1]] = value; value == nil {
			delete(body, names[len(names)-1])
		}
	}
}

func TestOutpostAnswers(t *testing.T) {
	const async = "execution-type: async\r\n"
	for _, tc := range []struct {
		name, method, target, headers, body string
		status                              int
		want                                string
	}{
		{"ping", "GET", "/ping", "", "", 200, `{"ping":"pong!"}`},
		{"start", "POST", "/services", "", started(nil), 200, `{"service":"slipway.example:8888"}`},
		{"start with a slash", "POST", "/services/", "", started(nil), 200, `{"service":"slipway.example:8888"}`},
		{"start async", "POST", "/services", async, started(nil), 202, `{"service":"slipway.example:8888"}`},
		{"poll running", "GET", "/services//run", "", "", 200, `{"status":null}`},
		{"poll starting", "GET", "/services//wait", "", "", 200, `{"status":null}`},
		{"poll stopping", "GET", "/services//bye", "", "", 200, `{"status":null}`},
		{"poll by a name", "GET", "/services/lab/named", "", "", 200, `{"status":null}`},
		{"poll by another's name", "GET", "/services/lab/run", "", "", 404, `{"detail":"Item not found"}`},
		{"poll without the name", "GET", "/services//named", "", "", 404, `{"detail":"Item not found"}`},
		{"stop by another's name", "DELETE", "/services/lab/run", "", "", 404, `{"detail":"Item not found"}`},
		{"poll by an escaped name", "GET", "/services/a%2Fb%20%C3%A4/odd", "", "", 200, `{"status":null}`},
		{"poll by a raw name", "GET", "/services/a\xc3\xa4\"b/raw", "", "", 200, `{"status":null}`},
		{"poll by a hostile name", "GET", "/services/a%0d%0aX-Evil:%201/run", "", "", 404, `{"detail":"Item not found"}`},
		{"poll with a slash", "GET", "/services/lab/0/", "", "", 200, `{"status":null}`},
		{"poll with logs", "GET", "/services//run?collect_logs=true", "", "", 200, `{"status":null,"logs":[` + strings.Repeat(`"line",`, 99) + `"line"]}`},
		{"poll stopped by the user", "GET", "/services//gone", "", "", 200, `{"status":0}`},
		{"poll after an exit code", "GET", "/services//code", "", "", 200, `{"status":137}`},
		{"poll after a failure without a code", "GET", "/services//fail", "", "", 200, `{"status":1}`},
		{"poll the unknown", "GET", "/services//nothing", "", "", 404, `{"detail":"Item not found"}`},
		{"poll a launch of a job", "GET", "/services//job", "", "", 404, `{"detail":"Item not found"}`},
		{"poll without an id", "GET", "/services/lab", "", "", 200, `{"status":null}`},
		{"stop", "DELETE", "/services//run", "", "", 200, `{}`},
		{"stop with logs", "DELETE", "/services//run?collect_logs=True", "", "", 200, `{"logs":[` + strings.Repeat(`"line",`, 99) + `"line"]}`},
		{"stop async", "DELETE", "/services//run", async, "", 202, `{}`},
		{"stop what has stopped", "DELETE", "/services//gone", "", "", 200, `{}`},
		{"stop the unknown", "DELETE", "/services//nothing", "", "", 404, `{"detail":"Item not found"}`},
		{"stop without an id", "DELETE", "/services/lab", "", "", 200, `{}`},
		{"a method that no start has", "PUT", "/services//run", "", "", 405, `{"detail":"Method Not Allowed"}`},
		{"a method that the list lacks", "DELETE", "/services/", "", "", 405, `{"detail":"Method Not Allowed"}`},
		{"credits", "GET", "/credits/", "", "", 200, `{}`},
		{"credits of a user", "POST", "/usercredits", "", `{"name":"alice"}`, 200, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine := newFake(outpostSession("s-run", "main", "eve", "run", spawner.Running), outpostSession("s-wait", "main", "dan", "wait", spawner.Pending),
				outpostSession("s-bye", "main", "ada", "bye", spawner.Stopping), outpostSession("s-zero", "main", "zoe", "0", spawner.Running),
				startOf("lab", "named"), startOf("a/b ä", "odd"), startOf("aä\"b", "raw"), startOf("lab", "0-1"),
				ended("s-gone", "gone", nil), ended("s-code", "code", &spawner.Outcome{ExitCode: 137}),
				ended("s-fail", "fail", &spawner.Outcome{Failed: true}), spawner.Workload{ID: "j-1", Kind: spawner.Job, Hub: "main", Owner: "bob", Launch: "job"})
			h := withOutpost(t, engine, nil)
			if status, got := h.ask(t, tc.method, tc.target, tc.headers, tc.body); status != tc.status || got != tc.want {
				t.Errorf("%d %s\nwant %d %s", status, got, tc.status, tc.want)
			}
		})
	}
}

// TestOutpostNeverRedirects: the Hub's client follows a redirect of a cleaned path, and its id lands in the place of
// the name.
func TestOutpostNeverRedirects(t *testing.T) {
	for _, method := range []string{"GET", "DELETE", "POST", "HEAD", "OPTIONS"} {
		for _, target := range []string{"/services//run", "/services/./run", "/services/../run", "/services//run/", "/services//", "/services/", "/services",
			"/services///run", "/flavors", "/flavors/", "/userflavors", "/userflavors/", "/credits", "/credits/", "/usercredits/", "/ping", "/ping/",
			"http://slipway.example:8888/services//run"} {
			h := withOutpost(t, newFake(outpostSession("s-run", "main", "eve", "run", spawner.Running)), nil)
			for _, credential := range []string{basic("main", outpostPassword), ""} {
				resp, _ := h.raw(t, method+" "+target+" HTTP/1.1\r\nHost: slipway.example:8888\r\nConnection: close\r\n"+credential+"\r\n")
				if resp.StatusCode >= 300 && resp.StatusCode < 400 {
					t.Errorf("%s %s is led to %s", method, target, resp.Header.Get("Location"))
				}
				if credential != "" && target == "/services//run" && (method == "GET" || method == "DELETE") && resp.StatusCode != 200 {
					t.Errorf("%s %s: %d", method, target, resp.StatusCode)
				}
			}
		}
	}
}

func TestOutpostWantsACredential(t *testing.T) {
	engine := newFake(outpostSession("s-run", "main", "eve", "run", spawner.Running))
	h := withOutpost(t, engine, nil)
	for name, header := range map[string]string{
		"none": "", "wrong password": basic("main", "wrong"), "no password": basic("main", ""), "a credential without password": basic("void", ""),
		"another's password": basic("main", "others"), "unknown": basic("nobody", outpostPassword), "bad base64": "Authorization: Basic !!!\r\n",
		"no colon": "Authorization: Basic bWFpbg==\r\n", "empty": "Authorization: Basic\r\n", "a token of the spawner": "Authorization: token " + spawnerToken + "\r\n",
		"a user's token": "Authorization: token eve-token\r\n", "long": "Authorization: Basic " + strings.Repeat("QUFB", 20_000) + "\r\n",
	} {
		for _, line := range []string{"POST /services", "GET /services/", "GET /services//run", "DELETE /services//run", "GET /flavors/", "POST /userflavors", "GET /credits", "PUT /services"} {
			resp, got := h.raw(t, line+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+header+"\r\n")
			if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") != "Basic" || strings.TrimSpace(got) != `{"detail":"Incorrect username or password"}` {
				t.Errorf("%s, %s: %d %s", name, line, resp.StatusCode, got)
			}
		}
	}
	for _, header := range []string{basic("main", outpostPassword), basic("main2", "rotated"), strings.Replace(basic("main", outpostPassword), "Basic", "bAsIc", 1)} {
		if resp, got := h.raw(t, "GET /services//run HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+header+"\r\n"); resp.StatusCode != 200 {
			t.Errorf("%s%d %s", header, resp.StatusCode, got)
		}
	}
	if len(engine.started) > 0 || engine.work["s-run"].Phase != spawner.Running {
		t.Error("somebody did something")
	}
	if log := h.logged.String(); strings.Contains(log, outpostPassword) || strings.Contains(log, "rotated") {
		t.Error("a password stands in the log")
	}
}

func TestOutpostHubsSeeTheirOwn(t *testing.T) {
	engine := newFake(outpostSession("s-a", "main", "alice", "same", spawner.Running), outpostSession("s-b", "other", "alice", "same", spawner.Stopping),
		outpostSession("s-c", "main", "carol", "mains", spawner.Running), outpostSession("s-d", "main", "dora", "taken", spawner.Running))
	h := withOutpost(t, engine, func(cfg *Config) { cfg.Hubs[1].OutpostAddress = "proxy.other:99" })
	other := func(method, target, body string) (int, string) {
		resp, got := h.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s",
			method, target, basic("other", "others"), len(body), body))
		return resp.StatusCode, strings.TrimSpace(got)
	}
	if status, got := other("GET", "/services//mains", ""); status != 404 {
		t.Errorf("the other hub sees main's start: %d %s", status, got)
	}
	if status, _ := other("DELETE", "/services//mains", ""); status != 404 || engine.work["s-c"].Phase != spawner.Running {
		t.Errorf("the other hub's stop: %d, and the session is %s", status, engine.work["s-c"].Phase)
	}
	if status, _ := other("DELETE", "/services//same", ""); status != 200 || engine.work["s-a"].Phase != spawner.Running || engine.work["s-b"].Phase != spawner.Stopped {
		t.Error("the stop of one hub has to reach its own session of that id alone")
	}
	if status, got := other("POST", "/services", started(set("user_options.start_id", "taken"))); status != 200 || got != `{"service":"proxy.other:99"}` {
		t.Errorf("an id that the other hub uses: %d %s", status, got)
	}
	if got := engine.work["s-new"]; got.Hub != "other" || got.Launch != "taken" {
		t.Errorf("started %+v", got)
	}
	_, got := other("GET", "/services/", "")
	if strings.Contains(got, "carol") || strings.Contains(got, "dora") || !strings.Contains(got, `"jupyterhub":"other"`) {
		t.Errorf("the other hub's list: %s", got)
	}
}

func TestOutpostLists(t *testing.T) {
	stopping := outpostSession("s-b", "main", "bob", "b", spawner.Running)
	stopping.Want, stopping.Name = spawner.WantStopped, "lab"
	waiting := outpostSession("s-a", "main", "ann", "a", spawner.Pending)
	waiting.Spec.Life.MaxAge = 3600e9
	waiting.Spec.Env = map[string]string{"JUPYTERHUB_USER_ID": "17"}
	kernel := outpostSession("s-k", "main", "ann", "k", spawner.Running)
	kernel.Kind = spawner.Kernel
	h := withOutpost(t, newFake(waiting, stopping, kernel, ended("s-c", "c", nil), job("j-1", "ann")), nil)
	const zero = "0001-01-01T00:00:00Z"
	want := `[{"name":"","start_id":"a","user":"ann","start_date":"` + zero + `","end_date":"0001-01-01T01:00:00Z","jupyterhub":"main","jupyterhub_userid":"17",` +
		`"last_update":"` + zero + `","state_stored":true,"start_pending":true,"stop_pending":false},` +
		`{"name":"lab","start_id":"b","user":"bob","start_date":"` + zero + `","end_date":null,"jupyterhub":"main","jupyterhub_userid":null,` +
		`"last_update":"` + zero + `","state_stored":true,"start_pending":false,"stop_pending":true}]`
	if status, got := h.ask(t, "GET", "/services/", "", ""); status != 200 || got != want {
		t.Errorf("%d\n%s", status, cmp.Diff(want, got))
	}
}

// TestOutpostAfterAStop: what was stopped is unknown, as with the Outpost of others; what has ended by itself tells its
// code until then.
func TestOutpostAfterAStop(t *testing.T) {
	h := withOutpost(t, newFake(outpostSession("s-run", "main", "eve", "run", spawner.Running), ended("s-code", "code", &spawner.Outcome{ExitCode: 137})), nil)
	for _, tc := range []struct {
		method, target string
		status         int
	}{
		{"GET", "/services//code", 200}, {"DELETE", "/services//code", 200}, {"GET", "/services//code", 404},
		{"DELETE", "/services//run", 200}, {"GET", "/services//run", 404}, {"DELETE", "/services//run", 200},
	} {
		if status, got := h.ask(t, tc.method, tc.target, "", ""); status != tc.status {
			t.Errorf("%s %s: %d %s", tc.method, tc.target, status, got)
		}
	}
	if status, got := h.ask(t, "POST", "/services", "", started(set("user_options.start_id", "run"))); status != 419 || len(h.engine.started) > 0 {
		t.Errorf("its id once more: %d %s", status, got)
	}
}

// TestOutpostWithoutAnID: where a start has no id it is "0", once at a time for each name.
func TestOutpostWithoutAnID(t *testing.T) {
	h := withOutpost(t, newFake(), nil)
	for round := range 3 {
		for _, name := range []string{"", "lab"} {
			body := started(func(body map[string]any) {
				body["name"] = name
				delete(body["user_options"].(map[string]any), "start_id")
				body["env"].(map[string]any)["JUPYTERHUB_SERVICE_PREFIX"] = strings.TrimSuffix("/user/alice/"+name, "/") + "/"
				body["env"].(map[string]any)["JUPYTERHUB_SERVER_NAME"] = name
			})
			for range 2 { // the second is the same start
				if status, got := h.ask(t, "POST", "/services", "", body); status != 200 {
					t.Fatalf("round %d, %q: %d %s", round, name, status, got)
				}
			}
		}
		if len(h.engine.started) != 2*(round+1) {
			t.Fatalf("round %d: %d starts", round, len(h.engine.started))
		}
		if status, got := h.ask(t, "GET", "/services/", "", ""); status != 200 || strings.Count(got, `"start_id":"0"`) != 2 || strings.Count(got, `"jupyterhub_userid":"1"`) != 2 {
			t.Errorf("round %d: %s", round, got)
		}
		for _, target := range []string{"/services//0", "/services/lab", "/services/lab/0"} {
			if status, got := h.ask(t, "GET", target, "", ""); status != 200 || got != `{"status":null}` {
				t.Errorf("round %d: %s: %d %s", round, target, status, got)
			}
		}
		for _, target := range []string{"/services//0", "/services/lab"} {
			if status, got := h.ask(t, "DELETE", target, "", ""); status != 200 {
				t.Errorf("round %d: stop %s: %d %s", round, target, status, got)
			}
			if status, got := h.ask(t, "GET", target, "", ""); status != 404 {
				t.Errorf("round %d: %s when it is stopped: %d %s", round, target, status, got)
			}
		}
	}
}

// TestOutpostWhileUnready: before the service knows what runs it must not say that something does not.
func TestOutpostWhileUnready(t *testing.T) {
	engine := newFake(outpostSession("s-run", "main", "eve", "run", spawner.Running))
	engine.notReady = errs.New(errs.Unavailable, "still looking")
	h := withOutpost(t, engine, nil)
	for _, tc := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", "/services//nothing", "", 503, `{"detail":"still looking"}`},
		{"DELETE", "/services//nothing", "", 503, `{"detail":"still looking"}`},
		{"POST", "/services", started(nil), 503, `{"detail":"still looking"}`},
		{"GET", "/services//run", "", 200, `{"status":null}`},
		{"DELETE", "/services//run", "", 200, `{}`},
	} {
		if status, got := h.ask(t, tc.method, tc.target, "", tc.body); status != tc.status || got != tc.want {
			t.Errorf("%s %s: %d %s, want %d %s", tc.method, tc.target, status, got, tc.status, tc.want)
		}
	}
}

// TestOutpostLeavesPagesAlone: browsers reach the service's own pages at the protocol's place.
func TestOutpostLeavesPagesAlone(t *testing.T) {
	h := withOutpost(t, newFake(), func(cfg *Config) { cfg.Hubs[0].PagesPrefix = "/services/slipway/" })
	for _, tc := range []struct {
		target, header string
		taken          bool
	}{
		{"/services/slipway/", "", false},
		{"/services/slipway", "", false},
		{"/services/slipway/sessions/s-1", "Cookie: a=b\r\n", false},
		{"/services/slipway/", "Authorization: token alice-token\r\n", false},
		{"/services/slipway/abc", basic("main", "wrong"), true},
		{"/services/slipway/abc", "Authorization: Basic !!\r\n", true},
		{"/services/slipways/", "", true},
		{"/services/", "", true},
		{"/servicesx", basic("main", outpostPassword), false},
		{"/flavorsx", basic("main", outpostPassword), false},
		{"/hub/services//x", basic("main", outpostPassword), false},
		{"/%73ervices//x", basic("main", outpostPassword), false},
	} {
		resp, got := h.raw(t, "GET "+tc.target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+tc.header+"\r\n")
		if taken := strings.Contains(got, `{"detail"`); taken != tc.taken {
			t.Errorf("%s with %q: taken %v: %d %s", tc.target, tc.header, taken, resp.StatusCode, got)
		}
	}
}

// TestOutpostPollStorm: after its restart a Hub asks for all of its servers at once.
func TestOutpostPollStorm(t *testing.T) {
	const n = 1000
	engine := newFake()
	for i := range n {
		w := outpostSession(spawner.ID(fmt.Sprintf("s-%d", i)), "main", spawner.User(fmt.Sprintf("u%d", i)), fmt.Sprintf("l%d", i), spawner.Running)
		engine.work[w.ID] = w
	}
	h := withOutpost(t, engine, nil)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 200}}
	defer client.CloseIdleConnections()
	bad := make(chan string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			req, _ := http.NewRequest("GET", fmt.Sprintf("%s/services//l%d", h.front.URL, i), nil)
			req.SetBasicAuth("main", outpostPassword)
			resp, err := client.Do(req)
			if err != nil {
				bad <- err.Error()
				return
			}
			defer resp.Body.Close()
			if got, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(got) != "{\"status\":null}\n" {
				bad <- fmt.Sprintf("%d %s", resp.StatusCode, got)
			}
		})
	}
	all.Wait()
	close(bad)
	for text := range bad {
		t.Fatal(text)
	}
}

// TestOutpostCredentialsOpenNothingElse walks the doors of the one protocol with the keys of the other.
func TestOutpostCredentialsOpenNothingElse(t *testing.T) {
	engine := newFake(lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice"))
	h := withOutpost(t, engine, nil)
	for name, tc := range walked {
		method, _, _ := strings.Cut(name, " ")
		resp, got := h.raw(t, fmt.Sprintf("%s /api/v1%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", method, tc.path, basic("main", outpostPassword)))
		if resp.StatusCode != 401 || strings.Contains(got, "alice") {
			t.Errorf("%s with an Outpost credential: %d %s", name, resp.StatusCode, got)
		}
	}
	for _, route := range []string{"/flavors", "/userflavors", "/credits", "/usercredits", "/services", "/services//l1", "/services/alice/l1"} {
		options, _ := h.raw(t, fmt.Sprintf("OPTIONS %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", route))
		methods := strings.Split(options.Header.Get("Allow"), ", ")
		if len(methods) < 2 {
			t.Fatalf("%s is none of the protocol's", route)
		}
		for _, method := range slices.DeleteFunc(methods, func(m string) bool { return m == http.MethodOptions }) {
			resp, got := h.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", method, route, basic("other", "others")))
			if strings.Contains(got, "alice") || strings.Contains(got, `"current":1`) || strings.HasPrefix(route, "/services/") && resp.StatusCode != 404 {
				t.Errorf("%s %s as another hub: %d %s", method, route, resp.StatusCode, got)
			}
		}
	}
	if engine.work["s-alice"].Phase != spawner.Running || engine.work["j-alice"].Phase != spawner.Running || len(engine.started) > 0 {
		t.Error("something of main's was changed")
	}
	for _, c := range engine.callers {
		if c.Hub == "main" || c.Admin {
			t.Errorf("the engine was asked as %+v", c)
		}
	}
}

// BenchmarkOutpostPoll measures what the protocol adds to the engine's answer.
func BenchmarkOutpostPoll(b *testing.B) {
	s := outpostServer(newFake(outpostSession("s-run", "main", "eve", "run", spawner.Running)))
	front := s.Public()
	r := httptest.NewRequest("GET", "/services//run", nil)
	r.SetBasicAuth("main", outpostPassword)
	for b.Loop() {
		w := httptest.NewRecorder()
		if front.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
