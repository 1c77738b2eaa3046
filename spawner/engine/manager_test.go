package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/launch"
	"slipway/spawner/spawnertest"
	"slipway/spawner/workloads"
)

// service is the engine over fakes, with its parts. It can be killed and started again over the same world. It lives in a synctest
// bubble.
type service struct {
	workloads.Workloads
	engine   *engine.Manager
	t        *testing.T
	store    *memory
	crew     *spawnertest.Crew
	sessions *spawnertest.Fake
	jobs     *spawnertest.Fake
	config   engine.Config
	parts    workloads.Config
	removed  []string // environments whose names are gone
	kill     func()
}

var (
	hub   = spawner.Caller{Hub: "main", Spawner: true}
	alice = spawner.Caller{User: "alice", Hub: "main"}
	bob   = spawner.Caller{User: "bob", Hub: "main"}
	admin = spawner.Caller{User: "root", Hub: "main", Admin: true}
)

func newService(t *testing.T) *service {
	s := &service{t: t, store: &memory{records: map[string][]byte{}}, crew: spawnertest.NewCrew()}
	lifecycle := spawnertest.Config{Name: "docker", Started: s.crew.ComeUp, Ended: s.crew.GoDown, StartTime: time.Second}
	s.sessions = spawnertest.New(lifecycle)
	lifecycle.Name = "local"
	s.jobs = spawnertest.New(lifecycle)
	uid := os.Getuid()
	s.config = engine.Config{
		Store: s.store, Backends: []spawner.Backend{s.sessions, s.jobs}, Agents: s.crew, Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Account: func(_ context.Context, _ string, u spawner.User) (spawner.Account, error) {
			return spawner.Account{UID: uid, GID: os.Getgid(), Login: string(u), Home: "/home/" + string(u)}, nil
		},
		Launch: launch.Config{
			Image: func(_ context.Context, digest string) (string, error) { return "/envs/" + digest + ".sif", nil },
			Thaw: func(_ context.Context, digest string) (spawner.Thaw, error) {
				return spawner.Thaw{Digest: digest}, nil
			},
		},
		Capacity: map[string]spawner.Capacity{"docker": {CPUs: 2, Memory: 8 << 30}, "local": {Count: 1}},
		Sessions: "docker", Sealer: secret.NewBox(), Limits: engine.Limits{Retry: time.Second},
		Workers: engine.Workers{Local: 16, Remotes: 64}, // thousands would cost each start of a service more than all that it does in a test
	}
	s.parts = workloads.Config{Jobs: "local", Environment: func(_ context.Context, _ string, u spawner.User, ref string) (string, error) {
		switch {
		case ref == "ana":
			return "sha256:1234", nil
		case !strings.HasPrefix(ref, "sha256:") || slices.Contains(s.removed, ref):
			return "", errs.New(errs.NotFound, "no environment %q", ref)
		}
		return ref, nil
	}}
	s.start()
	t.Cleanup(func() { s.kill() })
	return s
}

// start starts the service; kill ends it as kill -9 would: nothing is told to anybody.
func (s *service) start() {
	m, err := engine.New(s.t.Context(), s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.engine = m
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.parts.Account, s.parts.Logger = s.config.Account, s.config.Logger
	if s.Workloads, err = workloads.New(s.t.Context(), m, s.parts); err != nil {
		s.t.Fatal(err)
	}
	go func() { defer close(done); _ = m.Run(ctx) }()
	s.kill = func() { cancel(); <-done; s.crew.HangUp() }
	s.crew.Dial(func(id spawner.ID, up bool) { m.LinkChanged(ctx, id, up) })
}

func (s *service) restart() {
	s.kill()
	s.start()
}

// away has the service be away for so long.
func (s *service) away(d time.Duration) {
	s.kill()
	time.Sleep(d)
	s.start()
}

func request(user, name, launch string) spawner.SessionRequest {
	return spawner.SessionRequest{
		User: spawner.User(user), Name: name, Kind: spawner.Lab, Launch: launch,
		Secrets: control.Env{"JUPYTERHUB_API_TOKEN": "hunter2-" + launch},
		Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Image: "notebook",
			Prefix: "/user/" + user + "/" + strings.TrimPrefix(name+"/", "/"), Ready: "api"}, Argv: []string{"jupyterhub-singleuser"}, Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30},
		},
	}
}

func (s *service) startSession(r spawner.SessionRequest) spawner.Workload {
	s.t.Helper()
	w, err := s.StartSession(s.t.Context(), hub, r)
	if err != nil {
		s.t.Fatalf("start %s/%s: %v", r.User, r.Name, err)
	}
	return w
}

// reach waits for a phase, at most ten virtual minutes.
func (s *service) reach(id spawner.ID, phase spawner.Phase) spawner.Workload {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	w, err := s.Await(ctx, admin, id, func(w spawner.Workload) bool { return w.Phase == phase })
	if err != nil {
		s.t.Fatalf("%s does not come to %s: %v; it is %s, outcome %+v", id, phase, err, w.Phase, w.Outcome)
	}
	return w
}

func (s *service) gone(id spawner.ID) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	if w, err := s.Await(ctx, admin, id, func(spawner.Workload) bool { return false }); !errs.Is(err, errs.NotFound) {
		s.t.Fatalf("%s is not forgotten: %v, %s", id, err, w.Phase)
	}
}

func (s *service) events(id spawner.ID, launch string) []spawner.Event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	seq, err := s.Events(ctx, admin, id, launch, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.Collect(seq)
}

func inBubble(f func(*testing.T, *service)) func(*testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newService(t)) })
	}
}

func TestSessionFromStartToStopToStart(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(request("alice", "", "one"))
		s.reach(w.ID, spawner.Running)
		want := []string{
			"Asked for a session", "Leased 1 CPU and 1 GiB of memory", "Starting the container",
			"The container runs; waiting for its agent", "Starting JupyterLab", "JupyterLab is ready (1.0 s)",
		}
		if got := messages(s.events(w.ID, "one")); !slices.Equal(got, want) {
			t.Errorf("events:\n%q, want\n%q", got, want)
		}
		app := s.crew.Hand(w.ID).App()
		if app.Env["JUPYTERHUB_API_TOKEN"] != "hunter2-one" || !app.HTTP || app.Dir != "/home/alice" {
			t.Errorf("the agent got %q in %s", app.Argv, app.Dir)
		}
		if _, err := s.Stop(t.Context(), hub, w.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Stopped)
		again := s.startSession(request("alice", "", "two"))
		s.reach(again.ID, spawner.Running)
		if again.ID != w.ID || s.sessions.Runs(w.ID) != 2 {
			t.Errorf("the second start is %s with %d runs, want %s again with its changes", again.ID, s.sessions.Runs(w.ID), w.ID)
		}
		if err := s.Remove(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(w.ID)
		if left := s.look(w.ID); left != spawner.Absent {
			t.Errorf("discarded, and the backend still has it %s", left)
		}
	})(t)
}

func (s *service) look(id spawner.ID) spawner.Existence {
	o, err := s.sessions.Observe(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return o.Existence
}

func TestSecretsAreOnlySealed(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(request("alice", "", "one"))
		if text := s.store.text(); strings.Contains(text, "hunter2") || !strings.Contains(text, "sealed") {
			t.Errorf("the store has, while the session starts, %s", text)
		}
		w = s.reach(w.ID, spawner.Running)
		if len(w.Sealed) > 0 {
			t.Error("the app has its secrets, and they are kept")
		}
		l, _ := s.sessions.Launched(w.ID)
		if text := s.store.text() + fmt.Sprintf("%+v", l); strings.Contains(text, "hunter2") {
			t.Errorf("a secret stands in the store or in what the backend got: %s", text)
		}
	})(t)
}

func TestRepeatedRequestStartsOnce(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		a := s.startSession(request("alice", "", "one"))
		b := s.startSession(request("alice", "", "one"))
		s.reach(a.ID, spawner.Running)
		c := s.startSession(request("alice", "", "one"))
		if a.ID != b.ID || a.ID != c.ID || s.sessions.Runs(a.ID) != 1 {
			t.Errorf("three requests for one launch: %s %s %s, %d runs", a.ID, b.ID, c.ID, s.sessions.Runs(a.ID))
		}
	})(t)
}

func TestNewLaunchReplacesAnOldOne(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		a := s.startSession(request("alice", "", "one"))
		s.reach(a.ID, spawner.Running)
		b := s.startSession(request("alice", "", "two"))
		s.reach(b.ID, spawner.Running)
		if got := s.crew.Hand(b.ID).App().Launch; got != "two" || a.ID != b.ID {
			t.Errorf("%s runs launch %s, want %s with launch two", b.ID, got, a.ID)
		}
	})(t)
}

func TestOtherImageIsAnotherSession(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		a := s.startSession(request("alice", "", "one"))
		s.reach(a.ID, spawner.Running)
		other := request("alice", "", "two")
		other.Spec.Image = "root"
		b := s.startSession(other)
		s.reach(b.ID, spawner.Running)
		if a.ID == b.ID || s.look(a.ID) != spawner.Exited {
			t.Errorf("the changes over the first image are %s, want kept", s.look(a.ID))
		}
	})(t)
}

func TestOtherEnvironmentIsAnotherSession(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		plain := s.startSession(request("alice", "", "one"))
		s.reach(plain.ID, spawner.Running)
		from := func(digest, launch string) spawner.Workload {
			r := request("alice", "", launch)
			r.Spec.Environment = digest
			w := s.startSession(r)
			return s.reach(w.ID, spawner.Running)
		}
		first, second := from("sha256:1", "two"), from("sha256:2", "three")
		if again := from("sha256:1", "four"); again.ID != first.ID || first.ID == second.ID || first.ID == plain.ID {
			t.Errorf("sessions %s, %s, %s and again %s, want three and the second again", plain.ID, first.ID, second.ID, again.ID)
		}
		for id, want := range map[spawner.ID]string{plain.ID: "", first.ID: "sha256:1", second.ID: "sha256:2"} {
			l, _ := s.sessions.Launched(id)
			if got := thawed(t, l); got != want {
				t.Errorf("%s: %q, want %q", id, got, want)
			}
		}
	})(t)
}

// thawed says what a launch starts from.
func thawed(t *testing.T, l spawner.Launch) string {
	t.Helper()
	if l.Thaw == nil {
		return ""
	}
	from, err := l.Thaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return from.Digest
}

func TestNoEnvironmentsHere(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.config.Launch.Thaw = nil
		s.start()
		r := request("alice", "", "one")
		r.Spec.Environment = "sha256:1"
		if _, err := s.StartSession(t.Context(), hub, r); !errs.Is(err, errs.Missing) {
			t.Errorf("StartSession = %v, want missing", err)
		}
	})(t)
}

func TestFreshStartDiscardsTheChanges(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		first := s.startSession(request("alice", "", "one"))
		s.reach(first.ID, spawner.Running)
		s.Stop(t.Context(), hub, first.ID)
		s.reach(first.ID, spawner.Stopped)
		fresh := request("alice", "", "two")
		fresh.Fresh = true
		second := s.startSession(fresh)
		s.reach(second.ID, spawner.Running)
		s.gone(first.ID)
		if again := s.startSession(fresh); again.ID != second.ID || s.sessions.Runs(second.ID) != 1 {
			t.Errorf("the repeated request made %s, want %s once", again.ID, second.ID)
		}
	})(t)
}

func TestRoomIsWaitedForInOrder(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		first := s.startSession(request("alice", "", "1"))
		second := s.startSession(request("bob", "", "1"))
		s.reach(first.ID, spawner.Running)
		s.reach(second.ID, spawner.Running)
		large := request("carol", "", "1")
		large.Spec.Resources.CPUs = 2
		third := s.startSession(large)
		time.Sleep(time.Second) // virtual: the fourth comes later
		fourth := s.startSession(request("dave", "", "1"))
		synctest.Wait()
		if got, want := s.Queue(third).String(), "Waiting for room, next in line: 2 CPUs asked, 0 of 2 free"; got != want {
			t.Errorf("Queue = %q, want %q", got, want)
		}
		if got, want := s.Queue(fourth).String(), "Waiting for room: number 2 in line"; got != want {
			t.Errorf("Queue = %q, want %q", got, want)
		}
		s.Stop(t.Context(), hub, first.ID)
		s.reach(first.ID, spawner.Stopped)
		synctest.Wait()
		if w, _ := s.Get(t.Context(), hub, fourth.ID); w.Phase != spawner.Pending {
			t.Errorf("a small one overtook the large one: %s", w.Phase)
		}
		s.Stop(t.Context(), hub, second.ID)
		s.reach(third.ID, spawner.Running)
		s.Stop(t.Context(), hub, third.ID)
		s.reach(fourth.ID, spawner.Running)
	})(t)
}

func TestCancelWhilePendingAndWhileStarting(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		hold := make(chan struct{})
		defer close(hold)
		s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Start, Step: spawnertest.Halfway, Hold: hold})
		big := request("alice", "", "1")
		big.Spec.Resources.CPUs = 2
		starting := s.startSession(big)
		s.reach(starting.ID, spawner.Starting)
		waiting := s.startSession(request("bob", "", "1"))
		synctest.Wait()
		s.Stop(t.Context(), hub, waiting.ID)
		s.reach(waiting.ID, spawner.Stopped)
		s.Stop(t.Context(), hub, starting.ID)
		s.reach(starting.ID, spawner.Stopped)
		if use := s.Stats().Use["docker"]; use.Count != 0 {
			t.Errorf("canceled, and %d leases are held", use.Count)
		}
	})(t)
}

func TestWhyAStartFailed(t *testing.T) {
	tests := []struct {
		name       string
		arrange    func(*service)
		wantReason string
		wantCause  spawner.Cause
	}{
		{"the backend refuses", func(s *service) {
			s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Start, Err: errs.New(errs.Missing, "no image notebook").With("build it")})
		}, "start the container: no image notebook", spawner.CauseStart},
		{"the app ends at once", func(s *service) {
			s.crew.Boot(func(h *spawnertest.Hand) { h.Print("ModuleNotFoundError\n"); h.Exit(1) })
		}, "JupyterLab ended with exit code 1", spawner.CauseExit},
		{"the app never answers", func(s *service) { s.crew.Boot(func(*spawnertest.Hand) {}) }, "JupyterLab did not answer within 3m0s", spawner.CauseStart},
		{"the agent never comes up", func(s *service) {
			s.crew.Dial(func(spawner.ID, bool) {})
		}, "its agent did not come up within 1m0s", spawner.CauseStart},
	}
	for _, tt := range tests {
		t.Run(tt.name, inBubble(func(t *testing.T, s *service) {
			tt.arrange(s)
			w := s.startSession(request("alice", "", "one"))
			events := s.events(w.ID, "one")
			last := events[len(events)-1]
			w = s.reach(w.ID, spawner.Stopped)
			if w.Outcome == nil || w.Outcome.Reason != tt.wantReason || !last.Failed || !last.Final {
				t.Errorf("outcome %+v and last event %+v, want reason %q", w.Outcome, last, tt.wantReason)
			}
			failed := map[spawner.Cause]int{spawner.CauseStart: 0, spawner.CauseExit: 0, spawner.CauseLost: 0}
			failed[tt.wantCause]++
			if got := s.Stats().StartsFailed; !maps.Equal(got, failed) {
				t.Errorf("failed starts are %v, want %v", got, failed)
			}
			if use := s.Stats().Use["docker"]; use.Count != 0 {
				t.Errorf("failed, and %d leases are held", use.Count)
			}
		}))
	}
}

// TestAStartWaitsForItsBackend: while that does not answer, whoever lists the session is told so.
func TestAStartWaitsForItsBackend(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		heal := s.sessions.Inject(spawnertest.Fault{
			Op: spawnertest.Observe, Times: spawnertest.Always, Err: errs.New(errs.Unavailable, "connection refused"),
		})
		w := s.startSession(request("alice", "", "one"))
		time.Sleep(10 * time.Second)
		if words := s.Detail(s.reach(w.ID, spawner.Starting)); !strings.Contains(words, "does not answer") {
			t.Errorf("it waits for %q", words)
		}
		heal()
		if words := s.Detail(s.reach(w.ID, spawner.Running)); words != "" {
			t.Errorf("it runs, and waits for %q", words)
		}
	})(t)
}

func TestLastLinesOfAFailedStart(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Print("first\nModuleNotFoundError: No module named 'x'\n"); h.Exit(1) })
		w := s.startSession(request("alice", "", "one"))
		w = s.reach(w.ID, spawner.Stopped)
		if got, want := w.Outcome.Tail, "first\nModuleNotFoundError: No module named 'x'"; got != want {
			t.Errorf("tail %q, want %q", got, want)
		}
	})(t)
}

func TestDeathOfARunningSession(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(request("alice", "", "one"))
		s.reach(w.ID, spawner.Running)
		s.sessions.OutOfMemory(w.ID)
		w = s.reach(w.ID, spawner.Stopped)
		if !strings.Contains(w.Outcome.Reason, "out of memory") || w.Outcome.Remedy == "" || !w.Outcome.Failed {
			t.Errorf("outcome %+v", w.Outcome)
		}
	})(t)
}

func TestUnknownIsNotDead(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(request("alice", "", "one"))
		s.reach(w.ID, spawner.Running)
		recover := s.sessions.Inject(spawnertest.Fault{Op: spawnertest.Observe, Times: spawnertest.Always})
		time.Sleep(time.Hour) // virtual
		if now, _ := s.Get(t.Context(), hub, w.ID); now.Phase != spawner.Running {
			t.Errorf("the backend did not answer for an hour, and the session is %s", now.Phase)
		}
		s.Stop(t.Context(), hub, w.ID)
		time.Sleep(time.Minute)
		if use := s.Stats().Use["docker"]; use.Count != 1 {
			t.Errorf("its resources were given back though nobody saw it gone")
		}
		recover()
		s.reach(w.ID, spawner.Stopped)
	})(t)
}

// TestKilledAtEveryMoment kills the service after every virtual tenth of a second of a start and starts it again; the
// Hub may repeat its request or not. In the end exactly one container runs, and exactly one app was launched in it,
// with its secrets.
func TestKilledAtEveryMoment(t *testing.T) {
	for tenth := range 32 {
		t.Run(fmt.Sprint(tenth), inBubble(func(t *testing.T, s *service) {
			s.crew.Boot(func(h *spawnertest.Hand) { time.AfterFunc(300*time.Millisecond, h.Ready) })
			w := s.startSession(request("alice", "", "one"))
			time.Sleep(time.Duration(tenth/2) * 100 * time.Millisecond)
			s.restart()
			again := w
			if tenth%2 == 1 {
				again = s.startSession(request("alice", "", "one"))
			}
			s.reach(again.ID, spawner.Running)
			if got := s.crew.Hand(w.ID).App().Env["JUPYTERHUB_API_TOKEN"]; got != "hunter2-one" {
				t.Errorf("the app has the token %q", got)
			}
			ids, _ := s.sessions.List(t.Context())
			if again.ID != w.ID || len(ids) != 1 || s.crew.Hand(w.ID).Launches() != 1 {
				t.Errorf("%s became %s; containers %v; %d launches", w.ID, again.ID, ids, s.crew.Hand(w.ID).Launches())
			}
			if use := s.Stats().Use["docker"]; use.Count != 1 {
				t.Errorf("%d leases for one session", use.Count)
			}
		}))
	}
}

func TestRunningSessionsSurviveARestart(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(request("alice", "", "one"))
		s.reach(w.ID, spawner.Running)
		s.restart()
		time.Sleep(time.Hour)
		now, err := s.Get(t.Context(), hub, w.ID)
		if err != nil || now.Phase != spawner.Running || s.sessions.Runs(w.ID) != 1 {
			t.Errorf("after a restart: %v, %s, %d runs", err, now.Phase, s.sessions.Runs(w.ID))
		}
		if id, ok := s.Route("main", "/user/alice/lab/tree"); !ok || id != w.ID {
			t.Errorf("its path leads to %q", id)
		}
		if err := s.Ready(); err != nil {
			t.Error(err)
		}
	})(t)
}

func TestSealThatCannotBeOpened(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(request("alice", "", "one"))
		time.Sleep(500 * time.Millisecond)
		s.config.Sealer = secret.NewBox()
		s.restart()
		w = s.reach(w.ID, spawner.Stopped)
		if !strings.Contains(w.Outcome.Reason, "secret key was changed") || s.Stats().Use["docker"].Count != 0 {
			t.Errorf("outcome %+v, use %+v", w.Outcome, s.Stats().Use)
		}
	})(t)
}

func TestWaitingSessionsKeepTheirPlaceOverARestart(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		var all []spawner.Workload
		for i := range 4 {
			all = append(all, s.startSession(request(fmt.Sprintf("user%d", i), "", "1")))
			time.Sleep(2 * time.Second)
		}
		s.restart()
		synctest.Wait()
		if a, b := s.Queue(all[2]), s.Queue(all[3]); a.Place != 1 || b.Place != 2 {
			t.Errorf("places %+v and %+v", a, b)
		}
		s.Stop(t.Context(), hub, all[0].ID)
		s.reach(all[2].ID, spawner.Running)
	})(t)
}

func TestFullDiskStartsNothing(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.store.mu.Lock()
		s.store.full = true
		s.store.mu.Unlock()
		if _, err := s.StartSession(t.Context(), hub, request("alice", "", "one")); !errs.Is(err, errs.NoSpace) {
			t.Errorf("err = %v", err)
		}
		if list, _ := s.List(t.Context(), admin); len(list) != 0 || s.sessions.Count(spawnertest.Start, "") != 0 {
			t.Errorf("half-done: %v", list)
		}
	})(t)
}

func TestLostRecordsStopNothing(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill() // the first look at the backend must find it
		s.sessions.Plant("s-stranger", spawner.Observation{Existence: spawner.Up})
		s.start()
		time.Sleep(5 * time.Minute)
		if seen := s.look("s-stranger"); seen != spawner.Up {
			t.Errorf("the only session that runs is %s", seen)
		}
		if err := s.Ready(); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "lost its records") {
			t.Errorf("Ready() = %v", err)
		}
		if list, err := s.List(t.Context(), alice); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "lost its records") {
			t.Errorf("her sessions are %v, %v", list, err)
		}
		if _, err := s.StartSession(t.Context(), hub, request("alice", "", "one")); !errs.Is(err, errs.Unavailable) {
			t.Errorf("a start is taken: %v", err)
		}
		s.sessions.Vanish("s-stranger") // the administrator has looked after it
		time.Sleep(time.Minute)
		s.reach(s.startSession(request("alice", "", "two")).ID, spawner.Running)
	})(t)
}

func TestStrangers(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.reach(s.startSession(request("alice", "", "one")).ID, spawner.Running) // there are records
		s.sessions.Plant("s-stranger", spawner.Observation{Existence: spawner.Up})
		s.jobs.Plant("j-stranger", spawner.Observation{Existence: spawner.Up})
		time.Sleep(5 * time.Minute)
		if seen := s.look("s-stranger"); seen != spawner.Exited {
			t.Errorf("a session without a record is %s, want stopped and kept: it may be somebody's work", seen)
		}
		if o, _ := s.jobs.Observe(t.Context(), "j-stranger"); o.Existence != spawner.Absent {
			t.Errorf("a job without a record is %s, want gone", o.Existence)
		}
		if got := s.Stats().Orphans; got != 1 {
			t.Errorf("%d orphans counted, want the kept one", got)
		}
	})(t)
}

func TestEachReachesOnlyWhatIsHers(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		w := s.startSession(request("alice", "", "one"))
		j := s.submit(alice, spawner.JobRequest{Name: "x", Spec: spawner.Spec{Environment: "ana", Argv: []string{"true"}}})
		s.reach(w.ID, spawner.Running)
		strangers := map[string]spawner.Caller{
			"bob": bob, "Alice": {User: "Alice", Hub: "main"}, "alice of another hub": {User: "alice", Hub: "other"}, "nobody": {},
			"an administrator of another hub": {User: "root", Hub: "other", Admin: true},
			"another hub's spawner":           {Hub: "other", Spawner: true}, "a job of alice's": {User: "alice", Hub: "main", Workload: "j-0000000000000000"},
			"a spawner without a hub": {Spawner: true},
		}
		for name, c := range strangers {
			for _, id := range []spawner.ID{w.ID, j.ID} {
				for call, err := range s.everyDoor(c, id) {
					if !errs.Is(err, errs.NotFound) {
						t.Errorf("%s reaches %s by %s: %v", name, id, call, err)
					}
				}
			}
			if list, _ := s.List(t.Context(), c); len(list) != 0 {
				t.Errorf("%s sees %d workloads", name, len(list))
			}
		}
		if _, err := s.StartSession(t.Context(), alice, request("alice", "", "two")); !errs.Is(err, errs.Forbidden) {
			t.Errorf("a user starts sessions past the Hub: %v", err)
		}
		if _, err := s.SubmitJob(t.Context(), spawner.Caller{User: "alice", Hub: "main", Workload: j.ID}, spawner.JobRequest{}); !errs.Is(err, errs.Forbidden) {
			t.Errorf("a job submits jobs: %v", err)
		}
		if now, _ := s.Get(t.Context(), alice, w.ID); now.Want != spawner.WantRunning {
			t.Error("somebody stopped it")
		}
	})(t)
}

// everyDoor calls every method that takes a caller and an ID.
func (s *service) everyDoor(c spawner.Caller, id spawner.ID) map[string]error {
	ctx := s.t.Context()
	errors := map[string]error{}
	_, errors["Get"] = s.Get(ctx, c, id)
	_, errors["Stop"] = s.Stop(ctx, c, id)
	errors["Remove"] = s.Remove(ctx, c, id)
	_, errors["Await"] = s.Await(ctx, c, id, func(spawner.Workload) bool { return true })
	_, errors["Events"] = s.Events(ctx, c, id, "", 0)
	_, errors["Log"] = s.Log(ctx, c, id, 0, false)
	_, errors["Tail"] = s.Tail(ctx, c, id, 10)
	_, errors["Files"] = s.Files(ctx, c, id)
	_, _, errors["File"] = s.File(ctx, c, id, "result")
	_, errors["Keep"] = s.Keep(ctx, c, id, time.Hour)
	return errors
}

func TestBadSessionRequests(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		tests := []struct {
			name string
			edit func(*spawner.SessionRequest)
			want string
		}{
			{"no user", func(r *spawner.SessionRequest) { r.User = "" }, "user"},
			{"a newline in the name", func(r *spawner.SessionRequest) { r.Name = "a\nb" }, "server_name"},
			{"a user of 300 bytes", func(r *spawner.SessionRequest) { r.User = spawner.User(strings.Repeat("x", 300)) }, "at most 255 bytes"},
			{"broken UTF-8", func(r *spawner.SessionRequest) { r.User = "\xff" }, "UTF-8"},
			{"no launch", func(r *spawner.SessionRequest) { r.Launch = "" }, "launch"},
			{"no program", func(r *spawner.SessionRequest) { r.Spec.Argv = nil }, "argv"},
			{"more than there is", func(r *spawner.SessionRequest) { r.Spec.Resources.CPUs = 64 }, "64 CPUs asked, 2 of 2 free"},
		}
		for _, tt := range tests {
			r := request("alice", "", "one")
			tt.edit(&r)
			if _, err := s.StartSession(t.Context(), hub, r); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want a word of %q", tt.name, err, tt.want)
			}
		}
		for _, user := range []string{"has@", "user--foo", "Alice", "a.b", strings.Repeat("u", 200), "физик"} {
			w := s.startSession(request(user, "", "one"))
			s.reach(w.ID, spawner.Running)
			s.Remove(t.Context(), hub, w.ID)
			s.gone(w.ID)
		}
	})(t)
}

func (s *service) submit(c spawner.Caller, r spawner.JobRequest) spawner.Workload {
	s.t.Helper()
	w, err := s.SubmitJob(s.t.Context(), c, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// payload plays a job that prints, writes a file and exits.
func payload(code int) func(*spawnertest.Hand) {
	return func(h *spawnertest.Hand) {
		h.Ready()
		h.Print("hello\n")
		time.AfterFunc(time.Minute, func() {
			h.Print("done\n")
			h.Leave("result.pkl", "42")
			h.Exit(code)
		})
	}
}

func TestJob(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(payload(3))
		w := s.submit(alice, spawner.JobRequest{Name: "first", Spec: spawner.Spec{Environment: "ana", Argv: []string{"python", "cell.py"}}, Files: map[string][]byte{"cell.py": []byte("1")}})
		if w.Spec.Environment != "sha256:1234" {
			t.Errorf("the job names its environment %s, want the digest", w.Spec.Environment)
		}
		s.reach(w.ID, spawner.Running)
		log, err := s.Log(t.Context(), alice, w.ID, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(log)
		log.Close()
		if string(whole) != "hello\ndone\n" || err != nil {
			t.Errorf("the log is %q, %v", whole, err)
		}
		w = s.reach(w.ID, spawner.Stopped)
		if o := w.Outcome; o.ExitCode != 3 || !o.Failed || o.Tail != "hello\ndone" {
			t.Errorf("outcome %+v", o)
		}
		f, size, err := s.File(t.Context(), alice, w.ID, "result.pkl")
		if err != nil || size != 2 {
			t.Fatalf("result: %v, %d bytes", err, size)
		}
		f.Close()
		if o, _ := s.jobs.Observe(t.Context(), w.ID); o.Existence != spawner.Absent {
			t.Errorf("a job that has ended left something behind: %s", o.Existence)
		}
		if _, _, err := s.File(t.Context(), alice, w.ID, "../log"); !errs.Is(err, errs.NotFound) {
			t.Errorf("a file outside: %v", err)
		}
		s.Remove(t.Context(), alice, w.ID)
		s.gone(w.ID)
		if _, err := os.Stat(filepath.Join(s.config.Dir, string(w.ID))); !os.IsNotExist(err) {
			t.Errorf("its directory is left: %v", err)
		}
	})(t)
}

// TestJobKilledAtEveryMoment kills the service during a job: the job runs once, and its whole log and result arrive.
func TestJobKilledAtEveryMoment(t *testing.T) {
	for tenth := range 16 {
		t.Run(fmt.Sprint(tenth), inBubble(func(t *testing.T, s *service) {
			s.crew.Boot(payload(0))
			w := s.submit(alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, RequestID: "r1"})
			time.Sleep(time.Duration(tenth) * 100 * time.Millisecond)
			if tenth == 15 {
				time.Sleep(50 * time.Second)
			}
			s.restart()
			again := s.submit(alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}, RequestID: "r1"})
			w = s.reach(w.ID, spawner.Stopped)
			log, _ := os.ReadFile(filepath.Join(s.config.Dir, string(w.ID), "log"))
			if again.ID != w.ID || w.Outcome.Failed || string(log) != "hello\ndone\n" || s.jobs.Count(spawnertest.Start, w.ID) > 2 {
				t.Errorf("%s and %s, outcome %+v, log %q, %d starts", w.ID, again.ID, w.Outcome, log, s.jobs.Count(spawnertest.Start, w.ID))
			}
		}))
	}
}

func TestJobsWaitForAPlaceAndCanBeCanceled(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(payload(0))
		first := s.submit(alice, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}})
		time.Sleep(time.Millisecond)
		second := s.submit(bob, spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}})
		s.reach(first.ID, spawner.Running)
		if got := s.Queue(second).String(); got != "Waiting for room, next in line: 1 of 1 places taken" {
			t.Errorf("Queue = %q", got)
		}
		s.Stop(t.Context(), alice, first.ID)
		w := s.reach(first.ID, spawner.Stopped)
		if !w.Outcome.Canceled {
			t.Errorf("outcome %+v", w.Outcome)
		}
		s.reach(second.ID, spawner.Running)
	})(t)
}

func TestBadJobs(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		good := spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}}
		tests := []struct {
			name string
			edit func(*spawner.JobRequest)
			want string
		}{
			{"unknown environment", func(r *spawner.JobRequest) { r.Environment = "nope" }, `no environment "nope"`},
			{"unknown backend", func(r *spawner.JobRequest) { r.Backend = "slurm" }, `backend: "slurm" is not valid`},
			{"no program", func(r *spawner.JobRequest) { r.Argv = nil }, "argv"},
			{"a file elsewhere", func(r *spawner.JobRequest) { r.Files = map[string][]byte{"../x": nil} }, "files"},
			{"a hidden file", func(r *spawner.JobRequest) { r.Files = map[string][]byte{".x": nil} }, "files"},
			{"a control character", func(r *spawner.JobRequest) { r.Name = "a\x00" }, "name"},
		}
		for _, tt := range tests {
			r := good
			tt.edit(&r)
			if _, err := s.SubmitJob(t.Context(), alice, r); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want a word of %q", tt.name, err, tt.want)
			}
		}
		s.jobs.Inject(spawnertest.Fault{Op: spawnertest.Check, Err: errs.New(errs.Missing, "no apptainer").With("run deploy/apptainer/install")})
		if _, err := s.SubmitJob(t.Context(), alice, good); err == nil || !strings.Contains(err.Error(), "deploy/apptainer/install") {
			t.Errorf("without Apptainer: %v", err)
		}
		if list, _ := s.List(t.Context(), admin); len(list) != 0 {
			t.Errorf("half-done jobs: %v", list)
		}
	})(t)
}

func TestRoute(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		plain := s.startSession(request("alice", "", "one"))
		named := s.startSession(request("alice", "gpu", "one"))
		for path, want := range map[string]spawner.ID{
			"/user/alice/":           plain.ID,
			"/user/alice/lab":        plain.ID,
			"/user/alice/gpu/lab":    named.ID,
			"/user/alice/gpux/lab":   plain.ID,
			"/user/alice":            "",
			"/user/alicex/":          "",
			"/":                      "",
			"":                       "",
			"//user/alice/":          "",
			"/user/bob/alice/gpu/x/": "",
		} {
			if got, _ := s.Route("main", path); got != want {
				t.Errorf("Route(%q) = %q, want %q", path, got, want)
			}
		}
		if _, err := s.StartSession(t.Context(), hub, func() spawner.SessionRequest {
			r := request("mallory", "", "one")
			r.Spec.Prefix = "/user/alice/"
			return r
		}()); !errs.Is(err, errs.Conflict) {
			t.Errorf("another user takes alice's path: %v", err)
		}
	})(t)
}
