package htcondor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner/batch"
)

// TestUnknownRefusal: what is refused for a reason that nobody knows is tried once more, also where it is alone.
func TestUnknownRefusal(t *testing.T) {
	for failures, want := range map[int]bool{1: true, 2: false} {
		s := newSchedd()
		b, launch := played(t, s)
		left := failures
		s.refuse = func([]string) error {
			if left--; left >= 0 {
				return errors.New("something odd")
			}
			return nil
		}
		if err := b.Start(t.Context(), launch(1)); (err == nil) != want || s.count("condor_submit") != 2 {
			t.Errorf("refused %d times: %v after %d submissions", failures, err, s.count("condor_submit"))
		}
	}
}

// TestSessionsFirst: a session is submitted before the jobs that were there first, and these in parts that let others
// in between.
func TestSessionsFirst(t *testing.T) {
	var all []*batch.Call[*submission]
	for i := range mostAtOnce + 10 {
		all = append(all, &batch.Call[*submission]{Arg: &submission{rec: batch.Record{Limit: int64(i), Session: i%500 == 499}}})
	}
	now, later := sessionsFirst(all)
	if len(now) != mostAtOnce || len(later) != 10 || now[0].Arg.rec.Limit != 499 || now[1].Arg.rec.Limit != 999 || now[2].Arg.rec.Limit != 0 {
		t.Errorf("%d now, %d later, first %+v", len(now), len(later), now[0].Arg.rec)
	}
	s := newSchedd()
	b, launch := played(t, s)
	b.submits.Pick = func(all []*batch.Call[*submission]) (now, later []*batch.Call[*submission]) {
		return all[:1:1], all[1:]
	}
	must(t, errors.Join(startAll(t, b, someLaunches(launch, 9))...))
	if n := s.count("condor_submit"); n != 9 {
		t.Errorf("%d submissions of one each for 9", n)
	}
}

// TestRefusalForgotten: after a while as many are submitted at once again as before they were too many.
func TestRefusalForgotten(t *testing.T) {
	b := &Backend{most: 3, refused: time.Now()}
	if got := b.atOnce(); got != 3 {
		t.Errorf("at first %d", got)
	}
	b.refused = time.Now().Add(-refusalKept - time.Second)
	if got := b.atOnce(); got != mostAtOnce {
		t.Errorf("later %d", got)
	}
}

// TestNobodyWaits: a start that looks closely for what there is keeps no other from being submitted.
func TestNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedd()
		b, launch := slowly(t, s)
		doubtful := launch(1)
		must(t, b.Start(t.Context(), doubtful))
		rec, _, err := b.records.Get(doubtful.ID)
		must(t, err)
		rec.Job = "" // as it was saved before
		must(t, b.records.Put(rec))
		s.vanish(func(int) bool { return true })
		time.Sleep(time.Minute)
		done := make(chan error)
		go func() { done <- b.Start(t.Context(), doubtful) }()
		time.Sleep(time.Second)
		begun := time.Now()
		must(t, b.Start(t.Context(), launch(2)))
		if took := time.Since(begun); took > batch.MaxGather/2 {
			t.Errorf("another is submitted after %v", took)
		}
		must(t, <-done)
	})
}

// TestOnDisk: all that a job takes along is on the disk before it is submitted.
func TestOnDisk(t *testing.T) {
	s := newSchedd()
	b, launch := played(t, s)
	synced := map[string]bool{}
	b.sync = func(f *os.File) error {
		if s.count("condor_submit") == 0 {
			synced[filepath.Base(f.Name())] = true
		}
		return f.Sync()
	}
	l := launch(1)
	l.Uplink, l.App, l.Spec.Inputs = &control.Uplink{URL: "wss://s/"}, &control.App{Launch: "l-1", Argv: []string{"true"}}, []string{"data.txt"}
	must(t, os.MkdirAll(l.InputDir, 0o755))
	must(t, os.WriteFile(filepath.Join(l.InputDir, "data.txt"), []byte("of the user"), 0o666))
	must(t, b.Start(t.Context(), l))
	for _, name := range []string{"plan.json", "uplink.json", "app.json", "data.txt"} {
		if !synced[name] {
			t.Errorf("%s is not on the disk", name)
		}
	}
}
