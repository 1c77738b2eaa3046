package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/hub"
	"slipway/hubapi/server/hubs"
	"slipway/internal/agent/control"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/secret"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/workloads"
)

// fakeEngine keeps workloads in memory and lets tests move them on. It has the Manager's rule of who may see what.
type fakeEngine struct {
	mu       sync.Mutex
	work     map[spawner.ID]spawner.Workload
	changed  chan struct{}
	started  []spawner.SessionRequest
	jobs     []spawner.JobRequest
	points   []spawner.Point
	acted    []string // what was asked of Hold, Release, Requeue and Why, with the ids
	callers  []spawner.Caller
	log      string
	logs     func(from int64, follow bool) io.ReadCloser // instead of log
	steps    []spawner.Event
	alerts   []spawner.Alert
	notReady error
	starting func(ctx context.Context) error // before a session is entered
	stopping spawner.Phase                   // what Stop leads to; empty: Stopped
	visits   []string
	blobs    []string
	stored   map[string]string // what Blob gives
	progress map[spawner.ID]*control.Progress
	room     *spawner.Room // instead of what Room says by itself
}

var _ Engine = (*fakeEngine)(nil)

var _ Engine = workloads.Workloads{}

func newFake(list ...spawner.Workload) *fakeEngine {
	f := &fakeEngine{work: map[spawner.ID]spawner.Workload{}, changed: make(chan struct{})}
	for _, w := range list {
		f.work[w.ID] = w
	}
	return f
}

func (f *fakeEngine) set(w spawner.Workload) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.work[w.ID] = w
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeEngine) forget(id spawner.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.work, id)
	close(f.changed)
	f.changed = make(chan struct{})
}

func may(c spawner.Caller, w spawner.Workload) bool {
	switch {
	case c.System:
		return true
	case c.Spawner:
		return c.Hub == w.Hub && w.Kind != spawner.Job
	case c.Workload != "" && c.Workload[0] == 'j':
		return c.Workload == w.ID
	default:
		return c.User != "" && c.Hub == w.Hub && (c.Admin && c.Workload == "" || c.User == w.Owner)
	}
}

func (f *fakeEngine) peek(c spawner.Caller, id spawner.ID) (spawner.Workload, <-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers = append(f.callers, c)
	w, ok := f.work[id]
	if !ok || !may(c, w) {
		return spawner.Workload{}, nil, errs.New(errs.NotFound, "there is no %q", id)
	}
	return w, f.changed, nil
}

func (f *fakeEngine) StartSession(ctx context.Context, c spawner.Caller, r spawner.SessionRequest) (spawner.Workload, error) {
	if !c.Spawner {
		return spawner.Workload{}, errs.New(errs.Forbidden, "only a spawner")
	}
	if f.starting != nil {
		if err := f.starting(ctx); err != nil {
			return spawner.Workload{}, err
		}
	}
	w := spawner.Workload{ID: "s-new", Kind: r.Kind, Owner: r.User, Hub: c.Hub, Name: r.Name, Spec: r.Spec, Launch: r.Launch,
		Want: spawner.WantRunning, Phase: spawner.Pending}
	f.mu.Lock()
	if n := len(f.started); n > 0 {
		w.ID = spawner.ID(fmt.Sprintf("s-new%d", n))
	}
	f.started = append(f.started, r)
	f.mu.Unlock()
	f.set(w)
	return w, nil
}

func (f *fakeEngine) SubmitJob(_ context.Context, c spawner.Caller, r spawner.JobRequest) (spawner.Workload, error) {
	if c.Spawner {
		return spawner.Workload{}, errs.New(errs.Forbidden, "only users")
	}
	w := spawner.Workload{ID: "j-new", Kind: spawner.Job, Owner: c.User, Hub: c.Hub, Session: r.Session, Phase: spawner.Pending}
	f.set(w)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = append(f.jobs, r)
	return w, nil
}

func (f *fakeEngine) Plan(_ context.Context, _ spawner.Caller, r spawner.JobRequest) (spawner.Plan, error) {
	if r.Backend == "slurm" {
		return spawner.Plan{}, errs.Bad("backend", r.Backend, "leave it out, or name one of local")
	}
	return spawner.Plan{Backend: "local", Room: spawner.Room{Most: 8, Free: 3, Estimate: -1}, Typical: -1, Use: spawner.Use{Stored: 7, Store: 9}}, nil
}

func (f *fakeEngine) Usage(_ context.Context, c spawner.Caller) (spawner.Usage, error) {
	use := spawner.Use{Stored: 7, Store: 9, GPUHours: 1.5, Window: time.Hour}
	return spawner.Usage{Use: use, Inputs: 2, Kept: []spawner.Kept{{ID: "j-of-" + string(c.User), Bytes: 5, Files: 1, Expires: time.Unix(9, 0)}}}, nil
}

func (f *fakeEngine) Expires(w spawner.Workload) time.Time {
	if w.Outcome == nil || w.Outcome.At.IsZero() {
		return time.Time{}
	}
	return w.Outcome.At.Add(time.Hour)
}

func (f *fakeEngine) Get(_ context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	w, _, err := f.peek(c, id)
	return w, err
}

func (f *fakeEngine) List(_ context.Context, c spawner.Caller) (list []spawner.Workload, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(f.work)) {
		if w := f.work[id]; may(c, w) {
			list = append(list, w)
		}
	}
	return list, nil
}

func (f *fakeEngine) Each(ctx context.Context, c spawner.Caller, scan string, each func(w *spawner.Workload)) error {
	list, err := f.List(ctx, c)
	slices.SortStableFunc(list, func(a, b spawner.Workload) int { return cmp.Compare(a.Point, b.Point) })
	found := false
	for i := range list {
		if scan == "" || list[i].Scan == scan {
			found = true
			each(&list[i])
		}
	}
	if !found && scan != "" {
		return errs.New(errs.NotFound, "there is no scan %q", scan)
	}
	return err
}

func (f *fakeEngine) SessionsOf(ctx context.Context, c spawner.Caller, user spawner.User, name string) ([]spawner.Workload, error) {
	all, err := f.List(ctx, c)
	return slices.DeleteFunc(all, func(w spawner.Workload) bool {
		return w.Owner != user || w.Name != name || w.Kind == spawner.Job
	}), err
}

func (f *fakeEngine) Stop(_ context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error) {
	w, _, err := f.peek(c, id)
	if err != nil {
		return w, err
	}
	w.Want, w.Phase = spawner.WantStopped, cmp.Or(f.stopping, spawner.Stopped)
	f.set(w)
	return w, nil
}

func (f *fakeEngine) Remove(_ context.Context, c spawner.Caller, id spawner.ID) error {
	if _, _, err := f.peek(c, id); err != nil {
		return err
	}
	f.forget(id)
	return nil
}

func (f *fakeEngine) Await(ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool) (spawner.Workload, error) {
	for {
		w, changed, err := f.peek(c, id)
		if err != nil || done(w) {
			return w, err
		}
		select {
		case <-ctx.Done():
			return w, ctx.Err()
		case <-changed:
		}
	}
}

func (f *fakeEngine) Events(ctx context.Context, c spawner.Caller, id spawner.ID, launch string, after int64) (iter.Seq[spawner.Event], error) {
	if _, _, err := f.peek(c, id); err != nil {
		return nil, err
	}
	return func(yield func(spawner.Event) bool) {
		for _, e := range f.steps {
			if e.Seq > after && (launch == "" || launch == e.Launch) && !yield(e) {
				return
			}
		}
		if n := len(f.steps); n == 0 || !f.steps[n-1].Final {
			<-ctx.Done()
		}
	}, nil
}

func (f *fakeEngine) Keep(_ context.Context, c spawner.Caller, id spawner.ID, d time.Duration) (spawner.Workload, error) {
	w, _, err := f.peek(c, id)
	switch {
	case err != nil:
		return w, err
	case w.Phase != spawner.Running:
		return w, errs.New(errs.Conflict, "%s does not run", id)
	case d > 24*time.Hour:
		return w, errs.Bad("for", d, "at most 24h")
	}
	w.KeepUntil = time.Now().Add(d)
	f.set(w)
	return w, nil
}

func (f *fakeEngine) Queue(w spawner.Workload) spawner.Queue {
	if w.Phase == spawner.Pending {
		return spawner.Queue{Place: 2, Estimate: 12 * time.Minute}
	}
	return spawner.Queue{}
}

func (f *fakeEngine) PlannedStop(w spawner.Workload) spawner.PlannedStop {
	if w.Phase == spawner.Running && w.Kind != spawner.Job {
		return spawner.PlannedStop{At: time.Unix(7200, 0), Why: "it has done nothing for 1 h", CanKeep: true, MaxKeep: 24 * time.Hour}
	}
	return spawner.PlannedStop{}
}

func (f *fakeEngine) Alerts(spawner.Workload) []spawner.Alert { return f.alerts }

func (f *fakeEngine) InGroup(r gpu.Request, hub string, user spawner.User) gpu.Request {
	r.Group = string(user) + " of " + hub
	return r
}

func (f *fakeEngine) Room(_ string, r spawner.Resources, _ gpu.Request) spawner.Room {
	switch {
	case f.room != nil:
		return *f.room
	case r.CPUs > 2:
		return spawner.Room{Most: 2, Free: 0, Lacks: "4 CPUs asked, 1 of 8 free", Waiting: 1, Estimate: 12 * time.Minute}
	}
	return spawner.Room{Most: 8, Free: 3, Estimate: -1}
}

func (f *fakeEngine) Census(hub string, per func(spawner.Workload) string) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := map[string]int{}
	for _, w := range f.work {
		if w.Hub == hub && w.Kind != spawner.Job && w.Phase.Active() {
			count[per(w)]++
		}
	}
	return count
}

func (f *fakeEngine) Log(_ context.Context, c spawner.Caller, id spawner.ID, from int64, follow bool) (io.ReadCloser, error) {
	if _, _, err := f.peek(c, id); err != nil {
		return nil, err
	}
	if f.logs != nil {
		return f.logs(from, follow), nil
	}
	return io.NopCloser(strings.NewReader(f.log[from:])), nil
}

func (f *fakeEngine) Tail(_ context.Context, c spawner.Caller, id spawner.ID, lines int) (string, error) {
	_, _, err := f.peek(c, id)
	return strings.Repeat("line\n", lines), err
}

func (f *fakeEngine) Code(_ context.Context, c spawner.Caller, id spawner.ID) (string, string, error) {
	w, _, err := f.peek(c, id)
	if err != nil || w.Owner != c.User {
		return "", "", err
	}
	return "cell.py", "print('of " + string(w.Owner) + "') # <b>", nil
}

func (f *fakeEngine) Files(_ context.Context, c spawner.Caller, id spawner.ID) ([]control.File, error) {
	_, _, err := f.peek(c, id)
	return []control.File{{Name: "out put.bin", Size: 5}}, err
}

func (f *fakeEngine) File(_ context.Context, c spawner.Caller, id spawner.ID, name string) (io.ReadCloser, int64, error) {
	if _, _, err := f.peek(c, id); err != nil {
		return nil, 0, err
	}
	if name != "out put.bin" {
		return nil, 0, errs.New(errs.NotFound, "no file %q", name)
	}
	return io.NopCloser(bytes.NewBufferString("hello")), 5, nil
}

func (f *fakeEngine) Route(hub, path string) (spawner.ID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var best spawner.Workload
	for _, w := range f.work {
		if p := w.Spec.Prefix; p != "" && w.Hub == hub && w.Phase.Active() && strings.HasPrefix(path, p) && len(p) > len(best.Spec.Prefix) {
			best = w
		}
	}
	return best.ID, best.ID != ""
}

func (f *fakeEngine) Launched(_ context.Context, c spawner.Caller, launch string) (spawner.Workload, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.callers = append(f.callers, c)
	for _, w := range f.work {
		if w.Launch == launch && w.Kind != spawner.Job && may(c, w) {
			return w, nil
		}
	}
	return spawner.Workload{}, errs.New(errs.NotFound, "there is no start %q", launch)
}

func (f *fakeEngine) StopLaunch(ctx context.Context, c spawner.Caller, launch string) (spawner.Workload, error) {
	w, err := f.Launched(ctx, c, launch)
	if err != nil {
		return w, err
	}
	return f.Stop(ctx, c, w.ID)
}

func (f *fakeEngine) Visit(id spawner.ID, acted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.visits = append(f.visits, fmt.Sprint(id, " ", acted))
}

func (f *fakeEngine) Ready() error { return f.notReady }

const spawnerToken = "the-spawner-token-of-this-test-hub"

// fakeIdentify knows the tokens "alice-token", "bob-token", ...; the Hub is down for "down-token".
func fakeIdentify(_ context.Context, token string) (hub.Identity, error) {
	name, ok := strings.CutSuffix(token, "-token")
	switch {
	case token == "down-token":
		return hub.Identity{}, errs.New(errs.Unavailable, "the Hub is down")
	case !ok || strings.Contains(name, "-"):
		return hub.Identity{}, errs.New(errs.Unauthorized, "unknown token")
	}
	return hub.Identity{Name: name}, nil
}

// harness is a server over a fake engine.
type harness struct {
	*Server
	engine  *fakeEngine
	front   *httptest.Server
	logged  *testenv.Buffer
	tokenOf func(user string) string // with which a real Hub's user was last identified
}

func lab(id spawner.ID, owner spawner.User, prefix string) spawner.Workload {
	return spawner.Workload{ID: id, Kind: spawner.Lab, Owner: owner, Hub: "main", Phase: spawner.Running, Want: spawner.WantRunning,
		Launch: "l1", Created: time.Unix(1, 0), Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Prefix: prefix}, Resources: spawner.Resources{CPUs: 1, Memory: 2 << 30}}}
}

func job(id spawner.ID, owner spawner.User) spawner.Workload {
	return spawner.Workload{ID: id, Kind: spawner.Job, Owner: owner, Hub: "main", Phase: spawner.Running, Want: spawner.WantRunning}
}

func start(t testing.TB, engine *fakeEngine, change func(*Config)) *harness {
	t.Helper()
	logged := &testenv.Buffer{}
	api, _ := url.Parse("http://127.0.0.1:1/hub/api")
	cfg := Config{
		Engine: engine, Hubs: []hubs.Hub{{Name: "main", APIURL: api, SpawnerToken: secret.New(spawnerToken), Identify: fakeIdentify, Admins: []string{"root"}}},
		Catalogue: catalog.Catalogue{
			Images:   []catalog.ImageChoice{{Name: "notebook", Title: "Python", Ref: "slipway/notebook:1"}},
			Profiles: []catalog.Profile{{Name: "small", Kind: spawner.Lab, Images: []string{"notebook"}, CPUs: 1, MaxCPUs: 2, Memory: 2 << 30, MaxMemory: 4 << 30, Default: true}},
		},
		Jobs:         catalog.JobPolicy{DefaultCPUs: 1, MaxCPUs: 2, DefaultMemory: 1 << 30, MaxMemory: 4 << 30, DefaultTime: time.Hour, MaxTime: 2 * time.Hour},
		Logins:       devicelogin.New([]devicelogin.Page{{Hub: "main", URL: "http://hub.test" + prefix + "login"}}),
		Environments: &fakeEnvironments{owner: "alice"}, Shipper: fakeShipper{&fakeEnvironments{owner: "alice"}}, Exporter: fakeShipper{&fakeEnvironments{owner: "alice"}},
		Storage: fakeStorage{}, KernelMenu: fakeMenu{}, Quota: fakeQuota, KnownQuota: knownQuota, DataDoctor: newFakeDoctor(),
		Dial: func(context.Context, spawner.ID) (net.Conn, error) {
			return nil, errs.New(errs.Unavailable, "no link")
		},
		Credentials: func(ctx context.Context, c spawner.Caller, id spawner.ID) (hubapi.EnvironmentCredential, error) {
			w, err := engine.Get(ctx, c, id)
			if err != nil {
				return hubapi.EnvironmentCredential{}, err
			}
			return hubapi.EnvironmentCredential{Workload: string(w.ID), Environment: theDigest, Password: "secret of " + string(w.ID)}, nil
		},
		Logger: slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	h := &harness{Server: New(cfg), engine: engine, logged: logged}
	h.front = httptest.NewServer(h.Public())
	t.Cleanup(h.front.Close)
	t.Cleanup(h.Web.End)
	return h
}

// client is the real client as a caller.
func (h *harness) client(t *testing.T, token string) *hubapi.Client {
	t.Helper()
	c, err := hubapi.NewClient(hubapi.ClientConfig{URL: h.front.URL, Token: hubapi.Token(token)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// agentConn is a connection as a tunnel gives it.
type agentConn struct {
	net.Conn
	id string
}

func (a agentConn) WorkloadID() string { return a.id }

type agentListener struct {
	net.Listener
	id string
}

func (l agentListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return agentConn{c, l.id}, err
}

// seal makes a word as the pages give it to browsers.
func (h *harness) seal(plain, purpose string) string {
	return base64.RawURLEncoding.EncodeToString(h.box.Seal([]byte(plain), purpose))
}
