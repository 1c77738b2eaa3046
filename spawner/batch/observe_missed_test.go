package batch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

func never(int) bool { return false }

// slowly returns a Backend that looks every five seconds, in a bubble.
func slowly(t *testing.T, s *cluster) (*Backend, func(int) spawner.Launch) {
	t.Helper()
	b, launch := played(t, s)
	b.cfg.PollEvery = 5 * time.Second
	return b, launch
}

// looks returns what is seen of a workload some time later.
func looks(t *testing.T, b *Backend, id spawner.ID, later time.Duration) spawner.Observation {
	t.Helper()
	time.Sleep(later)
	o, err := b.Observe(t.Context(), id)
	must(t, err)
	return o
}

// TestVanished: jobs that an administrator removed are missed by two looks, and told of by the history, which is asked
// once for all. One that it knows nothing of is gone when none of it can run any more.
func TestVanished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster()
		b, launch := slowly(t, s)
		ls := someLaunches(launch, 20)
		must(t, errors.Join(startAll(t, b, ls)...))
		for _, l := range ls {
			looks(t, b, l.ID, 0)
		}
		s.vanish(func(n int) bool { return n > 0 })
		time.Sleep(b.cfg.PollEvery + 1)
		for _, l := range ls {
			if o := looks(t, b, l.ID, 0); o.Existence != spawner.Queued || !strings.Contains(o.Detail, "does not show it") {
				t.Errorf("after one look %s shows %+v", l.ID, o)
			}
		}
		if n := s.count(asked); n > 0 {
			t.Errorf("after one look the history is asked %d times", n)
		}
		time.Sleep(b.cfg.PollEvery + 1)
		lost := spawner.ID("")
		for _, l := range ls {
			o := looks(t, b, l.ID, 0)
			switch {
			case o.Existence == spawner.Queued && lost == "":
				lost = l.ID
			case o.Existence != spawner.Exited || !strings.Contains(o.Reason, "by hand") || o.Remedy == "":
				t.Errorf("after two looks %s shows %+v", l.ID, o)
			}
		}
		if lost == "" || s.count(asked) != 1 {
			t.Fatalf("%q is not in the history, asked %d times", lost, s.count(asked))
		}
		if o := looks(t, b, lost, b.cfg.Patience-2*b.cfg.PollEvery); o.Existence != spawner.Queued {
			t.Errorf("while something of it may run it shows %+v", o)
		}
		if o := looks(t, b, lost, 2*b.cfg.PollEvery); o.Existence != spawner.Exited || o.Reason == "" || o.Remedy == "" {
			t.Errorf("in the end it shows %+v", o)
		}
	})
}

// TestMissedIsWatched: who looks only when he is woken learns what became of a job that is missed, and is not woken for
// it any more then.
func TestMissedIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster()
		b, launch := slowly(t, s)
		l := launch(1)
		must(t, b.Start(t.Context(), l))
		var last spawner.Observation
		woken := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- b.Watch(ctx, func(id spawner.ID) {
				woken++
				last = looks(t, b, id, 0)
			})
		}()
		time.Sleep(time.Minute)
		s.vanish(func(int) bool { return true })
		time.Sleep(4 * b.cfg.PollEvery)
		synctest.Wait()
		if last.Existence != spawner.Exited || !strings.Contains(last.Reason, "by hand") {
			t.Errorf("woken %d times, it shows %+v", woken, last)
		}
		before := woken
		time.Sleep(time.Hour)
		synctest.Wait()
		if woken > before {
			t.Errorf("woken %d times more", woken-before)
		}
		cancel()
		must(t, <-done)
	})
}

// TestEmptyAnswer: a queue that answers as if it had no job, as it may once it has started again, ends none: not by
// looks in a row, nor by two that another parts.
func TestEmptyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster()
		b, launch := slowly(t, s)
		l := launch(1)
		must(t, b.Start(t.Context(), l))
		s.is("1.0", begins("n1"))
		want := looks(t, b, l.ID, b.cfg.PollEvery+1)
		for range 4 {
			jobs := s.vanish(never)
			for range 3 {
				if o := looks(t, b, l.ID, b.cfg.PollEvery+1); o != want {
					t.Fatalf("missed, it shows %+v", o)
				}
			}
			s.mu.Lock()
			s.jobs = jobs
			s.mu.Unlock()
			if o := looks(t, b, l.ID, b.cfg.Patience-3*b.cfg.PollEvery); o != want {
				t.Fatalf("there again, it shows %+v", o)
			}
		}
		s.vanish(never)
		again := assemble(b.cfg, s)
		if o, err := again.Observe(t.Context(), l.ID); !errs.Is(err, errs.Unavailable) {
			t.Errorf("a service that has never seen it tells %+v, %v", o, err)
		}
		if all, err := again.List(t.Context()); err != nil || all[l.ID] != spawner.Unknown {
			t.Errorf("List = %v, %v", all, err)
		}
	})
}

// TestNoHistory: where there is no history, what is to end settles after two looks, and everything else when none of it
// can run.
func TestNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster()
		s.after = func(c string) error {
			if c == asked {
				return errors.New("no history file is configured")
			}
			return nil
		}
		b, launch := slowly(t, s)
		stopped, removed, left := launch(1), launch(2), launch(3)
		must(t, errors.Join(startAll(t, b, []spawner.Launch{stopped, removed, left})...))
		time.Sleep(time.Second)
		s.vanish(never)
		begun := time.Now()
		must(t, b.Stop(t.Context(), stopped.ID, 0))
		must(t, b.Remove(t.Context(), removed.ID))
		if took := time.Since(begun); took < 2*b.cfg.PollEvery || took > time.Minute {
			t.Errorf("it took %v", took)
		}
		if o := looks(t, b, stopped.ID, 0); o.Existence != spawner.Exited {
			t.Errorf("the stopped one shows %+v", o)
		}
		if o := looks(t, b, removed.ID, 0); o.Existence != spawner.Absent {
			t.Errorf("the removed one shows %+v", o)
		}
		looks(t, b, left.ID, time.Minute)
		if o := looks(t, b, left.ID, b.cfg.Patience-2*time.Minute); o.Existence != spawner.Queued {
			t.Errorf("the other shows %+v", o)
		}
		if o := looks(t, b, left.ID, 2*time.Minute); o.Existence != spawner.Exited {
			t.Errorf("the other shows %+v in the end", o)
		}
	})
}

// TestSubmittedOrNot: a run of which no record says whether it was submitted is not submitted again by one look without
// it.
func TestSubmittedOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster()
		b, launch := slowly(t, s)
		l := launch(1)
		must(t, b.Start(t.Context(), l))
		rec, _, err := b.records.Get(l.ID)
		must(t, err)
		rec.Job = ""
		must(t, b.records.Put(rec))
		jobs := s.vanish(never)
		go func() {
			time.Sleep(time.Second)
			s.mu.Lock()
			s.jobs = jobs
			s.mu.Unlock()
		}()
		again := assemble(b.cfg, s)
		must(t, again.Start(t.Context(), l))
		if n := s.count(submitted); n != 1 {
			t.Errorf("%d submissions", n)
		}
	})
}
