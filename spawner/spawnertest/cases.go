package spawnertest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner"
)

// unknown is a workload that nobody ever started.
const unknown = spawner.ID("s-0000000000000000")

// cases are the suite: each has a fresh backend.
func cases() map[string]func(*testing.T, harness) {
	return map[string]func(*testing.T, harness){
		"is ready":                               isReady,
		"start brings it up":                     startBringsUp,
		"start twice adopts":                     startTwiceAdopts,
		"start takes odd owners":                 startTakesOddOwners,
		"start of two at once":                   startOfTwoAtOnce,
		"start with an ended context":            startEndedContext,
		"start whose context ends meanwhile":     startContextEnds,
		"start after stop keeps changes":         startAfterStop,
		"start after exit keeps changes":         startAfterExit,
		"start after remove has none of them":    startAfterRemove,
		"observe what never was":                 observeUnknown,
		"observe with an ended context":          observeEndedContext,
		"exit by itself is seen with its code":   exitIsSeen,
		"stop ends it":                           stopEnds,
		"stop twice":                             stopTwice,
		"stop what never was":                    stopUnknown,
		"stop what has exited":                   stopExited,
		"stop kills what does not listen":        stopKills,
		"stop with an ended context can go on":   stopEndedContext,
		"remove leaves nothing":                  removeLeavesNothing,
		"remove twice":                           removeTwice,
		"remove what never was":                  removeUnknown,
		"list holds exactly what was started":    listHolds,
		"a restarted service finds all as it is": restart,
		"a queued one is seen and taken back":    takesBack,
		"a later run replaces what has ended":    replaces,
		"what fits is not refused":               judges,
	}
}

func isReady(t *testing.T, h harness) {
	if h.Backend.Name() == "" {
		t.Error("the backend has no name")
	}
	if err := h.Backend.Check(t.Context()); err != nil {
		t.Errorf("Check() = %v", err)
	}
	h.lists(t, h.Backend)
}

func startBringsUp(t *testing.T, h harness) {
	l := h.up(t, "")
	h.runs(t, l.ID)
	h.lists(t, h.Backend, l.ID)
	if l.Kind.Session() {
		h.ran(t, l.ID, 1)
	}
}

func startTwiceAdopts(t *testing.T, h harness) {
	l := h.up(t, "")
	h.start(t, l)
	h.sees(t, l.ID, spawner.Up)
	h.lists(t, h.Backend, l.ID)
	if l.Kind.Session() {
		h.ran(t, l.ID, 1)
	}
	h.stop(t, l.ID)
	h.ended(t, l)
}

func startTakesOddOwners(t *testing.T, h harness) {
	for _, owner := range []spawner.User{"has@", "Ünï ☃ \"quoted\" $(id)\nnext", spawner.User(strings.Repeat("long.", 40))} {
		l := h.launch(t, "")
		l.Owner = owner
		h.start(t, l)
		h.runs(t, l.ID)
	}
}

func startOfTwoAtOnce(t *testing.T, h harness) {
	ls := []spawner.Launch{h.launch(t, ""), h.launch(t, "")}
	var wg sync.WaitGroup
	for _, l := range ls {
		wg.Go(func() {
			if err := h.Backend.Start(t.Context(), l); err != nil {
				t.Errorf("Start(%s) = %v", l.ID, err)
			}
		})
	}
	wg.Wait()
	h.lists(t, h.Backend, ls[0].ID, ls[1].ID)
	h.stop(t, ls[0].ID)
	h.ended(t, ls[0])
	h.runs(t, ls[1].ID)
}

func startEndedContext(t *testing.T, h harness) {
	l := h.launch(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Backend.Start(ctx, l); err == nil {
		t.Errorf("Start(%s) with an ended context = nil", l.ID)
	}
	h.sees(t, l.ID, spawner.Absent, spawner.Created)
}

// startContextEnds ends the context at many points of a start, and then starts for good: what was left is no hindrance.
func startContextEnds(t *testing.T, h harness) {
	for _, after := range []time.Duration{1, 3, 10, 30, 60, 100, 150, 200, 300} {
		l := h.launch(t, "")
		ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
		err := h.Backend.Start(ctx, l)
		cancel()
		if err == nil {
			h.runs(t, l.ID)
			continue
		}
		seen := h.sees(t, l.ID, h.unfinished()...)
		if l.Kind.Batch() && seen.Existence == spawner.Exited {
			continue // a job runs at most once
		}
		h.start(t, l)
		h.runs(t, l.ID)
	}
}

// unfinished is what may be seen of a start that was given up. A batch system may have taken it all the same, and only
// the answer is lost: it is found again.
func (h harness) unfinished() []spawner.Existence {
	if h.Remote {
		return []spawner.Existence{spawner.Absent, spawner.Created, spawner.Queued, spawner.Up}
	}
	return []spawner.Existence{spawner.Absent, spawner.Created, spawner.Exited}
}

func startAfterStop(t *testing.T, h harness) {
	l := h.up(t, "")
	if l.Kind.Batch() || h.Remote {
		return
	}
	h.ran(t, l.ID, 1)
	h.stop(t, l.ID)
	h.start(t, l)
	h.sees(t, l.ID, spawner.Up)
	h.ran(t, l.ID, 2)
}

func startAfterExit(t *testing.T, h harness) {
	l := h.up(t, ExitWith+"3")
	if l.Kind.Batch() || h.Remote {
		return
	}
	h.await(t, l.ID)
	h.start(t, l)
	h.ran(t, l.ID, 2)
	h.await(t, l.ID)
	h.sees(t, l.ID, spawner.Exited)
}

func startAfterRemove(t *testing.T, h harness) {
	l := h.up(t, "")
	if l.Kind.Batch() && !h.Remote {
		return
	}
	h.ran(t, l.ID, 1)
	h.stop(t, l.ID)
	h.remove(t, l.ID)
	h.start(t, l)
	h.runs(t, l.ID)
	h.ran(t, l.ID, 1)
}

func observeUnknown(t *testing.T, h harness) { h.sees(t, unknown, spawner.Absent) }

// observeEndedContext: not having been able to look must never read as having seen nothing.
func observeEndedContext(t *testing.T, h harness) {
	l := h.up(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o, err := h.Backend.Observe(ctx, l.ID); err == nil && o.Existence != spawner.Up {
		t.Errorf("Observe(%s) with an ended context = %+v, nil: want an error or the truth", l.ID, o)
	}
	if ids, err := h.Backend.List(ctx); err == nil && len(ids) != 1 {
		t.Errorf("List() with an ended context = %q, nil: want an error or the truth", ids)
	}
}

func exitIsSeen(t *testing.T, h harness) {
	l := h.up(t, ExitWith+"7")
	o := h.await(t, l.ID)
	if o.Existence != spawner.Exited || o.ExitCode != exitCode {
		t.Errorf("Observe(%s) = %+v, want exited with %d", l.ID, o, exitCode)
	}
}

func stopEnds(t *testing.T, h harness) {
	l := h.up(t, "")
	if l.Kind.Session() {
		h.ran(t, l.ID, 1)
	}
	h.stop(t, l.ID)
	h.ended(t, l)
	if l.Kind.Session() && !h.Remote {
		h.lists(t, h.Backend, l.ID)
		h.ran(t, l.ID, 1)
	}
}

func stopTwice(t *testing.T, h harness) {
	l := h.up(t, "")
	h.stop(t, l.ID)
	h.stop(t, l.ID)
	h.ended(t, l)
}

func stopUnknown(t *testing.T, h harness) { h.stop(t, unknown) }

func stopExited(t *testing.T, h harness) {
	l := h.up(t, ExitWith+"7")
	h.await(t, l.ID)
	h.stop(t, l.ID)
	h.ended(t, l)
}

func stopKills(t *testing.T, h harness) {
	l := h.up(t, Stubborn)
	begun := time.Now()
	h.stop(t, l.ID)
	if took := time.Since(begun); took > grace+testenv.Hang {
		t.Errorf("Stop(%s) took %v with a grace of %v", l.ID, took, grace)
	}
	h.ended(t, l)
}

func stopEndedContext(t *testing.T, h harness) {
	l := h.up(t, Stubborn)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := h.Backend.Stop(ctx, l.ID, grace); err == nil {
		h.ended(t, l)
	}
	h.stop(t, l.ID)
	h.ended(t, l)
}

func removeLeavesNothing(t *testing.T, h harness) {
	l := h.up(t, "")
	h.stop(t, l.ID)
	h.remove(t, l.ID)
	h.sees(t, l.ID, spawner.Absent)
	h.lists(t, h.Backend)
}

func removeTwice(t *testing.T, h harness) {
	l := h.up(t, "")
	h.stop(t, l.ID)
	h.remove(t, l.ID)
	h.remove(t, l.ID)
}

func removeUnknown(t *testing.T, h harness) { h.remove(t, unknown) }

func listHolds(t *testing.T, h harness) {
	first, second := h.up(t, ""), h.up(t, "")
	h.lists(t, h.Backend, first.ID, second.ID)
	h.stop(t, first.ID)
	h.remove(t, first.ID)
	h.lists(t, h.Backend, second.ID)
}

func restart(t *testing.T, h harness) {
	l := h.up(t, "")
	h.Backend = h.Again(t)
	h.lists(t, h.Backend, l.ID)
	h.sees(t, l.ID, spawner.Up)
	h.start(t, l)
	if l.Kind.Session() {
		h.ran(t, l.ID, 1)
	}
	h.Backend = h.Again(t)
	h.stop(t, l.ID)
	h.ended(t, l)
	h.Backend = h.Again(t)
	h.ended(t, l)
	h.remove(t, l.ID)
	h.lists(t, h.Backend)
}

func takesBack(t *testing.T, h harness) {
	if h.Unfit == nil {
		return
	}
	l := h.prepare(t, h.Unfit(t), "")
	h.start(t, l)
	h.sees(t, l.ID, spawner.Queued)
	h.start(t, l)
	h.lists(t, h.Backend, l.ID)
	h.Backend = h.Again(t)
	h.sees(t, l.ID, spawner.Queued)
	h.stop(t, l.ID)
	h.sees(t, l.ID, spawner.Absent, spawner.Created)
	h.remove(t, l.ID)
	h.sees(t, l.ID, spawner.Absent)
	h.lists(t, h.Backend)
}

// replaces: a run that follows another of the same launch is not taken for it, whatever that has left.
func replaces(t *testing.T, h harness) {
	if !h.Remote {
		return
	}
	l := h.up(t, ExitWith+"7")
	h.await(t, l.ID)
	l.Moves++
	l.Spec.Env[AgentEnv] = ""
	h.start(t, l)
	h.runs(t, l.ID)
	h.lists(t, h.Backend, l.ID)
}

// judges: what fits is not refused, and to be judged leaves nothing.
func judges(t *testing.T, h harness) {
	if !h.Remote {
		return
	}
	l := h.launch(t, "")
	if err := h.Backend.(spawner.Remote).Judge(t.Context(), l.Workload); err != nil {
		t.Errorf("Judge(%s) = %v", l.ID, err)
	}
	h.sees(t, l.ID, spawner.Absent)
	h.lists(t, h.Backend)
}
