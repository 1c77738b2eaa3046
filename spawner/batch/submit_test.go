package batch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// TestUnknownRefusal: what is refused for a reason that nobody knows is tried once more, also where it is alone.
func TestUnknownRefusal(t *testing.T) {
	for failures, want := range map[int]bool{1: true, 2: false} {
		s := newCluster()
		b, launch := played(t, s)
		left := failures
		s.refuse = func([]Entry) error {
			if left--; left >= 0 {
				return errors.New("something odd")
			}
			return nil
		}
		if err := b.Start(t.Context(), launch(1)); (err == nil) != want || s.count(submitted) != 2 {
			t.Errorf("refused %d times: %v after %d submissions", failures, err, s.count(submitted))
		}
	}
}

// TestSessionsFirst: a session is submitted before the jobs that were there first, and these in parts that let others
// in between.
func TestSessionsFirst(t *testing.T) {
	var all []*Call[*submission]
	for i := range mostAtOnce + 10 {
		all = append(all, &Call[*submission]{Arg: &submission{rec: Record{Limit: int64(i), Session: i%500 == 499}}})
	}
	now, later := sessionsFirst(all)
	if len(now) != mostAtOnce || len(later) != 10 || now[0].Arg.rec.Limit != 499 || now[1].Arg.rec.Limit != 999 || now[2].Arg.rec.Limit != 0 {
		t.Errorf("%d now, %d later, first %+v", len(now), len(later), now[0].Arg.rec)
	}
	s := newCluster()
	b, launch := played(t, s)
	b.submits.Pick = func(all []*Call[*submission]) (now, later []*Call[*submission]) {
		return all[:1:1], all[1:]
	}
	must(t, errors.Join(startAll(t, b, someLaunches(launch, 9))...))
	if n := s.count(submitted); n != 9 {
		t.Errorf("%d submissions of one each for 9", n)
	}
}

// TestRefusalForgotten: after a while as many are submitted at once again as before they were too many.
func TestRefusalForgotten(t *testing.T) {
	b := submissionSize{at: 3, refused: time.Now()}
	if got := b.most(); got != 3 {
		t.Errorf("at first %d", got)
	}
	b.refused = time.Now().Add(-refusalKept - time.Second)
	if got := b.most(); got != mostAtOnce {
		t.Errorf("later %d", got)
	}
}

// TestNobodyWaits: a start that looks closely for what there is keeps no other from being submitted.
func TestNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster()
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
		if took := time.Since(begun); took > MaxGather/2 {
			t.Errorf("another is submitted after %v", took)
		}
		must(t, <-done)
	})
}

// TestOnDisk: all that a job takes along is on the disk before it is submitted.
func TestOnDisk(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	synced := map[string]bool{}
	b.sync = func(f *os.File) error {
		if s.count(submitted) == 0 {
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

// limited is a submission that has more jobs than one may.
func limited(at int) func([]Entry) error {
	return func(rows []Entry) error {
		if len(rows) <= at {
			return nil
		}
		return TooMany{errs.New(errs.NoCapacity, "too many at once")}
	}
}

// TestTooManyAtOnce: what is more than one submission may have goes in several, and it is learnt how many.
func TestTooManyAtOnce(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	s.refuse = limited(7)
	ls := someLaunches(launch, 60)
	for i, err := range startAll(t, b, ls) {
		if err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if n := len(s.names()); n != 60 {
		t.Errorf("%d jobs are in the queue", n)
	}
	if n := s.count(submitted); n > 40 {
		t.Errorf("%d submissions", n)
	}
	if b.size.most() > 7 {
		t.Errorf("the next would have %d jobs", b.size.most())
	}
	s.refuse = limited(0)
	if err := b.Start(t.Context(), launch(99)); !errs.Is(err, errs.NoCapacity) {
		t.Errorf("where not even one may be: %v", err)
	}
}

// TestWhichOfSeveral: of several jobs of one workload the record's own counts, then the first that lives.
func TestWhichOfSeveral(t *testing.T) {
	runs := spawner.Observation{Existence: spawner.Up}
	a := Job{Name: "5.0", Number: 5, Seen: spawner.Observation{Existence: spawner.Exited}, Run: "l-1"}
	b := Job{Name: "7.3", Number: 7, Task: 3, Seen: runs, Run: "l-1"}
	c := Job{Name: "7.2", Number: 7, Task: 2, Seen: runs, Run: "l-1"}
	old := Job{Name: "4.0", Number: 4, Seen: runs, Run: "l-0"}
	for _, tc := range []struct {
		rec  Record
		want string
	}{
		{Record{Run: "l-1", Job: "5.0"}, "5.0"}, {Record{Run: "l-1"}, "7.2"}, {Record{Run: "l-9"}, "4.0"},
	} {
		if got, _ := current(tc.rec, []Job{a, b, c, old}); got.Name != tc.want {
			t.Errorf("%+v: %s, want %s", tc.rec, got.Name, tc.want)
		}
	}
	if _, ok := current(Record{}, nil); ok {
		t.Error("of none, one is picked")
	}
}

func TestArchitecture(t *testing.T) {
	header := func(magic, arch string) []byte {
		b := make([]byte, 48)
		copy(b[32:], magic)
		copy(b[42:], "01")
		copy(b[45:], arch)
		return b
	}
	for _, tc := range []struct {
		head []byte
		want string
	}{
		{header("SIF_MAGIC", "02"), "amd64"}, {header("SIF_MAGIC", "04"), "arm64"}, {header("SIF_MAGIC", "06"), "ppc64le"},
		{header("SIF_MAGIC", "11"), ""}, {header("hsqs", "02"), ""}, {nil, ""},
	} {
		if got := parseArch(tc.head); got != tc.want {
			t.Errorf("%q is of %q, want %q", tc.head, got, tc.want)
		}
	}
}

// jobOf returns the name of a workload's job.
func jobOf(t testing.TB, b *Backend, id spawner.ID) string {
	t.Helper()
	rec, known, err := b.records.Get(id)
	if err != nil || !known || rec.Job == "" {
		t.Fatalf("%s has the record %+v, %v", id, rec, err)
	}
	return rec.Job
}

// TestDoubles: of two jobs of a workload the one that is not its record's is removed when it is seen, and none that is
// the next run's.
func TestDoubles(t *testing.T) {
	for name, state := range map[string]func(*Job){"waits": func(*Job) {}, "runs": begins("n1"), "has ended": exits} {
		s := newCluster()
		b, launch := played(t, s)
		l := launch(1)
		must(t, b.Start(t.Context(), l))
		_, err := s.Submit(t.Context(), s.sent[0]) // as an orphan does
		must(t, err)
		s.is("1.0", state)
		until(t, "the double is removed", func() bool {
			o, err := b.Observe(t.Context(), l.ID)
			must(t, err)
			return len(s.names()) == 1 && o.Existence != ""
		})
		if got := s.names(); got[0] != "1.0" || jobOf(t, b, l.ID) != "1.0" {
			t.Errorf("it %s, and %q is left", name, got)
		}
		rec, _, err := b.records.Get(l.ID)
		must(t, err)
		waits := spawner.Observation{Existence: spawner.Queued}
		own := Job{Name: "1.0", Number: 1, Seen: waits, Login: "alice"}
		next := Job{Name: "7.0", Number: 7, Seen: waits, Login: "alice"}
		rec.Run, rec.Job = "l-1.1", "" // the next run is being submitted since
		must(t, b.records.Put(rec))
		before := s.count(removed)
		b.removeDoubles(t.Context(), l.ID, own, []Job{own, next})
		if n := s.count(removed); n != before {
			t.Error("the next run's job is removed")
		}
	}
}
