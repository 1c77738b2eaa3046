package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/spawnertest"
)

// trouble makes the agents of a crew go wrong: each field, when set, comes before the agent's own method.
type trouble struct {
	*spawnertest.Crew
	launch func(context.Context, engine.Agent, control.App) error
	file   func(name string) error
}

type troubled struct {
	engine.Agent
	trouble
	hand *spawnertest.Hand
}

func (o trouble) Agent(id spawner.ID) engine.Agent {
	return troubled{o.Crew.Agent(id), o, o.Hand(id)}
}

func (a troubled) Launch(ctx context.Context, app control.App) error {
	if a.launch != nil {
		return a.launch(ctx, a.Agent, app)
	}
	return a.Agent.Launch(ctx, app)
}

func (a troubled) File(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if a.file != nil {
		if err := a.file(name); err != nil {
			return nil, 0, err
		}
	}
	return a.Agent.File(ctx, name)
}

// Put refuses inputs behind the launch, as a real agent does.
func (a troubled) Put(ctx context.Context, name string, size int64, r io.Reader) error {
	if a.hand != nil && a.hand.Launches() > 0 {
		return errs.New(errs.Conflict, "the app was launched: no more inputs")
	}
	return a.Agent.Put(ctx, name, size, r)
}

// suffer starts the service again with troubled agents.
func (s *service) suffer(o trouble) {
	s.kill()
	o.Crew = s.crew
	s.config.Agents = o
	s.start()
}

// slowBackend starts the service again with a backend whose Start takes so long.
func (s *service) slowBackend(start time.Duration) {
	s.kill()
	s.sessions = s.sessions.Again(spawnertest.Config{Started: s.crew.ComeUp, Ended: s.crew.GoDown, StartTime: start})
	s.config.Backends = []spawner.Backend{s.sessions, s.jobs}
	s.start()
}

func mute(ctx context.Context, _ engine.Agent, _ control.App) error {
	<-ctx.Done()
	return ctx.Err()
}

func simpleJob() spawner.JobRequest {
	return spawner.JobRequest{Spec: spawner.Spec{Environment: "ana", Argv: []string{"x"}}}
}

func TestEventsAfterARestartStillComeToTheirEnd(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(payload(0))
		j := s.submit(alice, simpleJob())
		s.reach(j.ID, spawner.Stopped)
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready() })
		w := s.startSession(request("alice", "", "one"))
		s.reach(w.ID, spawner.Running)
		s.restart()
		for id, launch := range map[spawner.ID]string{j.ID: "", w.ID: "one"} {
			events := s.events(id, launch)
			if len(events) == 0 || !events[len(events)-1].Final {
				t.Errorf("the events of %s have no final one: %q", id, messages(events))
			}
		}
		if events := s.events(w.ID, "another"); len(events) > 0 {
			t.Errorf("the events of a launch that is over: %q", messages(events))
		}
	})(t)
}

func TestFileThatCannotBeHad(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.suffer(trouble{file: func(name string) error {
			if name == "big" {
				return errs.New(errs.Invalid, "it has 2 GiB")
			}
			return nil
		}})
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Leave("big", "x"); h.Leave("small", "y"); h.Exit(0) })
		w := s.reach(s.submit(alice, simpleJob()).ID, spawner.Stopped)
		if !w.Outcome.Failed || !strings.Contains(w.Outcome.Reason, "file big: it has 2 GiB") {
			t.Errorf("outcome %+v", w.Outcome)
		}
		if files, _ := s.Files(t.Context(), alice, w.ID); len(files) != 1 || files[0].Name != "small" {
			t.Errorf("files %v, want the one that could be had", files)
		}
	})(t)
}

func TestMuteAgentsCostOnlyThemselves(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.config.Capacity = nil
		s.suffer(trouble{launch: func(ctx context.Context, a engine.Agent, app control.App) error {
			if strings.HasPrefix(app.Launch, "evil") {
				return mute(ctx, a, app)
			}
			return a.Launch(ctx, app)
		}})
		var evil spawner.Workload
		for i := range 100 {
			evil = s.startSession(request("mallory", fmt.Sprint("n", i), fmt.Sprint("evil", i)))
		}
		w := s.startSession(request("alice", "", "one"))
		s.reach(w.ID, spawner.Running)
		if _, err := s.Stop(t.Context(), hub, evil.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(evil.ID, spawner.Stopped)
	})(t)
}

func TestBackendMayTakeItsTimeToStart(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.slowBackend(10 * time.Minute)
		w := s.startSession(request("alice", "", "one"))
		time.Sleep(9 * time.Minute)
		s.reach(w.ID, spawner.Running)
	})(t)
}

func TestNewLaunchEndsAnOldOneThatIsStillStarting(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.slowBackend(time.Hour)
		s.startSession(request("alice", "", "one"))
		time.Sleep(time.Second)
		began := time.Now()
		s.startSession(request("alice", "", "two"))
		if waited := time.Since(began); waited > time.Minute {
			t.Errorf("the request hung for %s", waited)
		}
	})(t)
}

func TestAnswerOfTheAgentIsLost(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		lost := false
		s.suffer(trouble{launch: func(ctx context.Context, a engine.Agent, app control.App) error {
			err := a.Launch(ctx, app)
			if !lost {
				lost = true
				return errors.New("the link broke before the answer came")
			}
			return err
		}})
		r := simpleJob()
		r.Files = map[string][]byte{"in": []byte("x")}
		w := s.reach(s.submit(alice, r).ID, spawner.Running)
		if n := s.crew.Hand(w.ID).Launches(); n != 1 || s.crew.Hand(w.ID).Input("in") != "x" {
			t.Errorf("%d launches, input %q", n, s.crew.Hand(w.ID).Input("in"))
		}
	})(t)
}

func TestKilledBetweenLaunchAndRecord(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		setFull := func(full bool) {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			s.store.full = full
		}
		s.suffer(trouble{launch: func(ctx context.Context, a engine.Agent, app control.App) error {
			setFull(true) // what follows is never saved
			return a.Launch(ctx, app)
		}})
		w := s.startSession(request("alice", "", "one"))
		time.Sleep(3 * time.Second)
		setFull(false)
		s.config.Agents = s.crew
		s.restart() // and the Hub does not come back: the app has all that it needs
		s.reach(w.ID, spawner.Running)
	})(t)
}

func TestOneRequestMakesOneJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		for round := range 50 {
			var wg sync.WaitGroup
			ids := make([]spawner.ID, 8)
			for i := range ids {
				wg.Go(func() {
					r := simpleJob()
					r.RequestID = fmt.Sprint("round", round)
					w, err := s.SubmitJob(t.Context(), alice, r)
					if err != nil {
						t.Error(err)
					}
					ids[i] = w.ID
				})
			}
			wg.Wait()
			for _, id := range ids {
				if id != ids[0] {
					t.Errorf("round %d made the jobs %v", round, ids)
					break
				}
			}
		}
	})
}

func TestJobThatCannotFitAnyMoreBlocksNobody(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.config.Capacity["local"] = spawner.Capacity{Count: 1, Memory: 4 << 30}
		s.start()
		one := s.submit(alice, simpleJob())
		s.reach(one.ID, spawner.Running)
		time.Sleep(time.Second)
		large := simpleJob()
		large.Resources.Memory = 4 << 30
		head := s.submit(alice, large)
		s.kill() // the service reads the map that is changed here
		s.config.Capacity["local"] = spawner.Capacity{Count: 1, Memory: 2 << 30}
		s.start()
		small := s.submit(bob, simpleJob())
		if _, err := s.Stop(t.Context(), alice, one.ID); err != nil {
			t.Fatal(err)
		}
		s.reach(small.ID, spawner.Running)
		if w := s.reach(head.ID, spawner.Stopped); !strings.Contains(w.Outcome.Reason, "can never start here") {
			t.Errorf("outcome %+v", w.Outcome)
		}
	})(t)
}

// muteList is a backend that never answers List.
type muteList struct{ *spawnertest.Fake }

func (m muteList) List(ctx context.Context) (map[spawner.ID]spawner.Existence, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestBackendThatDoesNotAnswer(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.config.Backends = []spawner.Backend{muteList{s.sessions}, s.jobs}
		s.start()
		time.Sleep(5 * time.Minute)
		if err := s.Ready(); err != nil {
			t.Errorf("after five minutes: %v", err)
		}
	})(t)
}

// TestRefusedEndIsRepeatedCalmly: a backend that refuses at once to end something, or to remove it, is asked again now
// and then, not as often as it can answer.
func TestRefusedEndIsRepeatedCalmly(t *testing.T) {
	for _, op := range []spawnertest.Op{spawnertest.Stop, spawnertest.Remove} {
		t.Run(string(op), inBubble(func(t *testing.T, s *service) {
			job := s.reach(s.submit(alice, simpleJob()).ID, spawner.Running)
			mend := s.jobs.Inject(spawnertest.Fault{Op: op, Step: spawnertest.Before, Times: spawnertest.Always})
			if err := s.Remove(t.Context(), alice, job.ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if asked := s.jobs.Count(op, job.ID); asked < 10 || asked > 60 {
				t.Errorf("asked %d times in a minute", asked)
			}
			mend()
			s.gone(job.ID)
		}))
	}
}

func TestLaunchNames(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		for _, name := range []string{"a\x01", "a b", "ä", strings.Repeat("x", 129)} {
			r := simpleJob()
			r.RequestID = name
			if _, err := s.SubmitJob(t.Context(), alice, r); !errs.Is(err, errs.Invalid) {
				t.Errorf("request id %q: %v", name, err)
			}
			if _, err := s.StartSession(t.Context(), hub, request("alice", "", name)); err == nil {
				t.Errorf("launch %q is taken", name)
			}
		}
		large := simpleJob()
		large.Argv = []string{strings.Repeat("x", 2<<20)}
		if _, err := s.SubmitJob(t.Context(), alice, large); err == nil || !strings.Contains(err.Error(), "put more into a file") {
			t.Errorf("a command of 2 MiB: %v", err)
		}
	})(t)
}

// printing is a backend that knows what the first process of a workload that has ended printed.
type printing struct{ *spawnertest.Fake }

func (p printing) Observe(ctx context.Context, id spawner.ID) (spawner.Observation, error) {
	o, err := p.Fake.Observe(ctx, id)
	if o.Existence == spawner.Exited {
		o.Tail = "agent: no room for a log"
	}
	return o, err
}

func TestAgentThatNeverComesUpLeavesItsLastWords(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.kill()
		s.sessions = s.sessions.Again(spawnertest.Config{Started: func(spawner.Launch) {}, Ended: s.crew.GoDown})
		s.config.Backends = []spawner.Backend{printing{s.sessions}, s.jobs}
		s.start()
		w := s.reach(s.startSession(request("alice", "", "one")).ID, spawner.Stopped)
		if o := w.Outcome; !strings.Contains(o.Reason, "agent did not come up") || o.Remedy == "" || o.Tail != "agent: no room for a log" {
			t.Errorf("outcome %+v", o)
		}
	})(t)
}
