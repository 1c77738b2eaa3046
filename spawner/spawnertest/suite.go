package spawnertest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner"
)

// Subject is a backend under test, in a world of its own that holds nothing yet.
type Subject struct {
	Backend spawner.Backend
	// Launch returns a launch of a new workload, with all that it needs on the host, whose agent obeys AgentEnv.
	Launch func(t *testing.T) spawner.Launch
	// Again returns a second backend over the same world, as after a restart of the service.
	Again func(t *testing.T) spawner.Backend
	// Runs tells from what a session keeps how often its agent was started there. Needed where Launch gives sessions,
	// but for a Remote: what a session keeps there is the engine's to bring back.
	Runs func(t *testing.T, id spawner.ID) int
	// Remote says that the backend is a spawner.Remote: what is started there is queued first, and its coming up is
	// awaited.
	Remote bool
	// Unfit returns, of a Remote, a launch that no host ever takes: it stays queued.
	Unfit func(t *testing.T) spawner.Launch
	// Except names cases that do not apply, each with the reason.
	Except map[string]string
	// Parallel says that the cases may run side by side: each mostly waits for another host.
	Parallel bool
}

// exitCode is that of an agent that ends by itself.
const exitCode = 7

// grace is what the suite leaves a workload to end.
const grace = time.Second

// Run puts a backend through the suite. fresh is called for each case.
func Run(t *testing.T, fresh func(t *testing.T) Subject) {
	cases := cases()
	for name := range fresh(t).Except {
		if cases[name] == nil {
			t.Errorf("exception %q is no case of the suite", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			if s.Parallel {
				t.Parallel()
			}
			if reason := s.Except[name]; reason != "" {
				t.Logf("does not apply: %s", reason)
				return
			}
			cases[name](t, harness{s})
		})
	}
}

// harness is a Subject with the words in which the cases are told.
type harness struct{ Subject }

// launch returns a new launch whose agent is to behave in the given way; the workload is cleared away after the test.
func (h harness) launch(t *testing.T, order string) spawner.Launch {
	t.Helper()
	return h.prepare(t, h.Launch(t), order)
}

func (h harness) prepare(t *testing.T, l spawner.Launch, order string) spawner.Launch {
	t.Helper()
	if l.Report == nil {
		l.Report = func(string, int) {}
	}
	l.Spec.Env = maps.Clone(l.Spec.Env)
	if l.Spec.Env == nil {
		l.Spec.Env = map[string]string{}
	}
	if order != "" {
		l.Spec.Env[AgentEnv] = order
	}
	t.Cleanup(func() { h.clear(t, l.ID) })
	return l
}

// clear leaves nothing of a workload, whatever the test did.
func (h harness) clear(t *testing.T, id spawner.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := h.Backend.Stop(ctx, id, 0); err != nil {
		t.Errorf("clear: stop %s: %v", id, err)
	}
	if err := h.Backend.Remove(ctx, id); err != nil {
		t.Errorf("clear: remove %s: %v", id, err)
	}
}

// up returns a workload that runs.
func (h harness) up(t *testing.T, order string) spawner.Launch {
	t.Helper()
	l := h.launch(t, order)
	h.start(t, l)
	if order == "" || order == Stubborn {
		h.runs(t, l.ID)
	}
	return l
}

// runs checks that a workload that was started runs; on a Remote that it comes to run.
func (h harness) runs(t *testing.T, id spawner.ID) {
	t.Helper()
	if h.Remote {
		h.until(t, "it runs", func() bool { return h.sees(t, id, spawner.Queued, spawner.Up).Existence == spawner.Up })
	}
	h.sees(t, id, spawner.Up)
}

func (h harness) start(t *testing.T, l spawner.Launch) {
	t.Helper()
	if err := h.Backend.Start(t.Context(), l); err != nil {
		t.Fatalf("Start(%s) = %v", l.ID, err)
	}
}

func (h harness) stop(t *testing.T, id spawner.ID) {
	t.Helper()
	if err := h.Backend.Stop(t.Context(), id, grace); err != nil {
		t.Fatalf("Stop(%s) = %v", id, err)
	}
}

func (h harness) remove(t *testing.T, id spawner.ID) {
	t.Helper()
	if err := h.Backend.Remove(t.Context(), id); err != nil {
		t.Fatalf("Remove(%s) = %v", id, err)
	}
}

// sees checks what a look at the workload shows.
func (h harness) sees(t *testing.T, id spawner.ID, want ...spawner.Existence) spawner.Observation {
	t.Helper()
	o, err := h.Backend.Observe(t.Context(), id)
	if err != nil {
		t.Fatalf("Observe(%s): %v", id, err)
	}
	if !slices.Contains(want, o.Existence) {
		t.Fatalf("Observe(%s) = %+v, want one of %v", id, o, want)
	}
	return o
}

// ended checks that a workload has been stopped: a session keeps its changes, of a job nothing needs to be left, nor of
// what is stopped on another host.
func (h harness) ended(t *testing.T, l spawner.Launch) {
	t.Helper()
	switch {
	case h.Remote:
		h.sees(t, l.ID, spawner.Exited, spawner.Absent, spawner.Created)
	case l.Kind.Batch():
		h.sees(t, l.ID, spawner.Exited, spawner.Absent)
	default:
		h.sees(t, l.ID, spawner.Exited)
	}
}

// await looks until the workload does not run any more.
func (h harness) await(t *testing.T, id spawner.ID) spawner.Observation {
	t.Helper()
	var seen spawner.Observation
	h.until(t, "the workload has ended", func() bool {
		seen = h.sees(t, id, spawner.Queued, spawner.Up, spawner.Exited, spawner.Absent)
		return seen.Existence != spawner.Up && seen.Existence != spawner.Queued
	})
	return seen
}

// ran waits until the session's own storage tells of n starts. What the agent does after its start takes a moment.
func (h harness) ran(t *testing.T, id spawner.ID, n int) {
	t.Helper()
	if h.Remote {
		return
	}
	h.until(t, "the changes show the right number of starts", func() bool {
		got := h.Runs(t, id)
		if got > n {
			t.Fatalf("the changes of %s show %d starts, want %d", id, got, n)
		}
		return got == n
	})
}

// until looks again and again until ok, and fails the test if that takes too long.
func (h harness) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, ok)
}

// lists checks that the backend holds exactly these workloads.
func (h harness) lists(t *testing.T, b spawner.Backend, want ...spawner.ID) {
	t.Helper()
	got, err := b.List(t.Context())
	if err != nil {
		t.Fatalf("List() = %v", err)
	}
	slices.Sort(want)
	if ids := slices.Sorted(maps.Keys(got)); !slices.Equal(ids, want) {
		t.Errorf("List() = %q, want %q", ids, want)
	}
	for _, id := range want {
		h.agree(t, b, id)
	}
}

// agree checks that a backend lists a workload as it sees it; on a Remote that may change between two questions.
func (h harness) agree(t *testing.T, b spawner.Backend, id spawner.ID) {
	t.Helper()
	h.until(t, "List() and Observe() agree", func() bool {
		o, err := b.Observe(t.Context(), id)
		list, err2 := b.List(t.Context())
		same := err == nil && err2 == nil && o.Existence == list[id]
		if !same && !h.Remote {
			t.Fatalf("List() shows %s as %s, %v, Observe() as %s, %v", id, list[id], err2, o.Existence, err)
		}
		return same
	})
}
