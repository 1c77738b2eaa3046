package batch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/internal/worker"
	"slipway/spawner"
)

func startAll(t *testing.T, b *Backend, launches []spawner.Launch) []error {
	t.Helper()
	all := make([]error, len(launches))
	var wg sync.WaitGroup
	for i, l := range launches {
		wg.Go(func() { all[i] = b.Start(t.Context(), l) })
	}
	wg.Wait()
	return all
}

func someLaunches(launch func(int) spawner.Launch, n int) []spawner.Launch {
	var ls []spawner.Launch
	for i := range n {
		ls = append(ls, launch(i))
	}
	return ls
}

// TestStartsTogether: what comes together is submitted together, each account's own by itself.
func TestStartsTogether(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	ls := someLaunches(launch, 60)
	for i := range ls {
		if i%2 == 1 {
			ls[i].Account.Login, ls[i].Owner = "bob", "bob"
		}
	}
	if err := errors.Join(startAll(t, b, ls)...); err != nil {
		t.Fatal(err)
	}
	if n := s.count(submitted); n > 10 {
		t.Errorf("%d submissions for 60 jobs of two users", n)
	}
	if got := s.names(); len(got) != 60 {
		t.Errorf("%d jobs are in the queue", len(got))
	}
	for _, all := range s.sent {
		if all.Login != all.Head {
			t.Errorf("the jobs of %s are submitted as %s", all.Head, all.Login)
		}
	}
	for _, l := range ls {
		if o, err := b.Observe(t.Context(), l.ID); err != nil || o.Existence != spawner.Queued {
			t.Fatalf("%s: %+v, %v", l.ID, o, err)
		}
	}
}

// TestPartRefused: where the queue takes only some, those are in it, and the others are told why.
func TestPartRefused(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	room := 7
	s.refuse = func(rows []Entry) error {
		if len(rows) > room {
			return errs.New(errs.OverQuota, "too many")
		}
		room -= len(rows)
		return nil
	}
	var taken int
	for i, err := range startAll(t, b, someLaunches(launch, 30)) {
		o, _ := b.Observe(t.Context(), launch(i).ID)
		switch {
		case err == nil && o.Existence == spawner.Queued:
			taken++
		case !errs.Is(err, errs.OverQuota) || o.Existence != spawner.Absent:
			t.Errorf("job %d: %v, %+v", i, err, o)
		}
	}
	if taken != 7 || len(s.names()) != 7 {
		t.Errorf("%d were taken, %d are in the queue, want 7", taken, len(s.names()))
	}
	if n := s.count(submitted); n > 40 {
		t.Errorf("%d submissions", n)
	}
}

// TestAllRefused: what none would be taken for is not tried for each.
func TestAllRefused(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	s.refuse = func([]Entry) error { return errs.New(errs.Forbidden, "not here") }
	for i, err := range startAll(t, b, someLaunches(launch, 50)) {
		if !errs.Is(err, errs.Forbidden) {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if n := s.count(submitted); n > 30 {
		t.Errorf("%d submissions", n)
	}
	if all, err := b.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("List() = %v, %v", all, err)
	}
}

// TestAnswerLost: a submission whose answer is lost is in the queue once, whoever asks again.
func TestAnswerLost(t *testing.T) {
	for name, downAfter := range map[string]bool{"the queue answers": false, "the queue is down": true} {
		t.Run(name, func(t *testing.T) {
			s := newCluster()
			b, launch := played(t, s)
			s.after = func(c string) error {
				if c != submitted {
					return nil
				}
				s.down = downAfter
				return errors.New("the answer is lost")
			}
			l := launch(1)
			err := b.Start(t.Context(), l)
			if downAfter != errs.Is(err, errs.Unavailable) || !downAfter && err != nil {
				t.Errorf("Start = %v", err)
			}
			s.mu.Lock()
			s.after, s.down = nil, false
			s.mu.Unlock()
			must(t, b.Start(t.Context(), l))
			if o, err := b.Observe(t.Context(), l.ID); err != nil || o.Existence != spawner.Queued || len(s.names()) != 1 {
				t.Errorf("%+v, %v; in the queue: %q", o, err, s.names())
			}
		})
	}
}

// TestKilledBetween: a service that was killed between the submission and its record finds the job again, and does not
// submit it twice: not when it is in the queue, and not when it has left it.
func TestKilledBetween(t *testing.T) {
	for _, left := range []bool{false, true} {
		s := newCluster()
		b, launch := played(t, s)
		l := launch(1)
		must(t, b.Start(t.Context(), l))
		rec, _, err := b.records.Get(l.ID)
		must(t, err)
		rec.Job = "" // as it was saved before
		must(t, b.records.Put(rec))
		if left {
			must(t, s.Remove(t.Context(), "alice", []string{"1.0"}, false))
		}
		again := assemble(b.cfg, s)
		must(t, again.Start(t.Context(), l))
		o, err := again.Observe(t.Context(), l.ID)
		must(t, err)
		if want := map[bool]spawner.Existence{false: spawner.Queued, true: spawner.Exited}[left]; o.Existence != want || s.count(submitted) != 1 {
			t.Errorf("left %v: %+v after %d submissions", left, o, s.count(submitted))
		}
	}
}

// TestStaleRun: a later run replaces what an earlier one has left, in the queue and here.
func TestStaleRun(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	want := spawner.Observation{Existence: spawner.Exited, ExitCode: 1, Evicted: true, Host: "n1", Reason: "the owner came back"}
	s.is("1.0", func(j *Job) { j.Begun, j.Seen = true, want })
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	if o, err := b.Observe(t.Context(), l.ID); err != nil || o != want {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := b.StagedOutput(t.Context(), l.ID); !errs.Is(err, errs.NotFound) {
		t.Errorf("remains of an evicted one: %v", err)
	}
	l.Moves++
	must(t, b.Start(t.Context(), l))
	if got := s.names(); !slices.Equal(got, []string{"2.0"}) {
		t.Errorf("in the queue: %q", got)
	}
}

// TestStopOfWhatWaits: what has only waited leaves nothing; what is stopped and removed twice, or was never there, is
// no error.
func TestStopOfWhatWaits(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	for range 2 {
		must(t, b.Stop(t.Context(), l.ID, time.Second))
		must(t, b.Remove(t.Context(), l.ID))
	}
	if all, err := b.List(t.Context()); err != nil || len(all) > 0 || len(s.names()) > 0 {
		t.Errorf("List() = %v, %v; in the queue: %q", all, err, s.names())
	}
	must(t, b.Start(t.Context(), l))
	s.is("2.0", begins("n1"))
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	if err := b.Remove(t.Context(), l.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("Remove of what runs = %v", err)
	}
}

// TestOver: a job that has ended counts as long as the batch system shows it, and after it has forgotten it; it is no
// hindrance to what comes after, and none to whom it is not of any more.
func TestOver(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.is("1.0", func(j *Job) {
		exits(j)
		j.Over, j.End = true, End{Code: 7, Host: "n1"}
	})
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	sees := func(what string, want spawner.Existence, code int) {
		t.Helper()
		o, err := b.Observe(t.Context(), l.ID)
		all, err2 := b.List(t.Context())
		if errors.Join(err, err2) != nil || o.Existence != want || o.ExitCode != code || len(all) == 0 != (want == spawner.Absent) {
			t.Errorf("%s: %+v, %v, %v", what, o, all, errors.Join(err, err2))
		}
	}
	sees("while it is shown", spawner.Exited, 7)
	must(t, b.Stop(t.Context(), l.ID, 0))
	must(t, b.Start(t.Context(), l)) // a job runs once
	if n := s.count(submitted); n != 1 {
		t.Errorf("%d submissions", n)
	}
	over := s.vanish(never)
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	sees("when it is forgotten", spawner.Exited, 7)
	s.mu.Lock()
	s.jobs = over
	s.mu.Unlock()
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	must(t, b.Remove(t.Context(), l.ID))
	sees("removed", spawner.Absent, 0)
	l.Moves++
	must(t, b.Start(t.Context(), l))
	sees("the next run", spawner.Queued, 0)
	if n := s.count(submitted); n != 2 || s.count(removed) != 0 {
		t.Errorf("%d submissions, %d removals", n, s.count(removed))
	}
}

// TestStopMany: many are ended by few commands.
func TestStopMany(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	ls := someLaunches(launch, 50)
	must(t, errors.Join(startAll(t, b, ls)...))
	var wg sync.WaitGroup
	for _, l := range ls {
		wg.Go(func() {
			if err := b.Stop(t.Context(), l.ID, time.Second); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.count(removed); n > 10 || len(s.names()) > 0 {
		t.Errorf("%d commands; left: %q", n, s.names())
	}
}

// TestQueueDown: that HTCondor does not answer is never taken for an answer.
func TestQueueDown(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	if o, err := b.Observe(t.Context(), l.ID); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Observe = %+v, %v", o, err)
	}
	if all, err := b.List(t.Context()); err == nil {
		t.Errorf("List = %v, nil", all)
	}
	if err := errors.Join(b.Stop(t.Context(), l.ID, 0), b.Remove(t.Context(), l.ID)); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Stop and Remove = %v", err)
	}
	other := launch(2)
	if err := b.Start(t.Context(), other); !errs.Is(err, errs.Unavailable) {
		t.Errorf("Start = %v", err)
	}
}

// TestDiskFull: a workload waits while there is no room for what it takes along, and leaves nothing.
func TestDiskFull(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	full := true
	lookup := b.accounts.lookup
	b.accounts.lookup = func(login string) (int, int, error) { // the first step of a sandbox that a test can have fail
		if full {
			return 0, 0, &os.PathError{Op: "write", Path: "plan.json", Err: syscall.ENOSPC}
		}
		return lookup(login)
	}
	l := launch(1)
	if err := b.Start(t.Context(), l); !errs.Is(err, errs.NoCapacity) || b.records.Has(l.ID) || s.count(submitted) > 0 {
		t.Errorf("Start = %v", err)
	}
	full, b.accounts.held = false, map[string]answer{}
	must(t, b.Start(t.Context(), l))
}

// TestOddFiles: what lies in a sandbox is the user's. No link is followed, no pipe waited for, and no odd word taken
// over.
func TestOddFiles(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.is("1.0", exits)
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	out := filepath.Join(b.records.Dir(l.ID), boxDir, "out")
	if _, err := b.StagedOutput(t.Context(), l.ID); !errs.Is(err, errs.NotFound) {
		t.Errorf("remains of nothing: %v", err)
	}
	must(t, os.Symlink("/etc/passwd", filepath.Join(out, "log")))
	must(t, os.Symlink("../../record.json", filepath.Join(out, "changes.pack")))
	must(t, os.Symlink("/etc", filepath.Join(out, "files")))
	must(t, os.WriteFile(filepath.Join(out, "end.json"), []byte(`{"exit_code":9999,"reason":"a\u001b[2Jb\nc","host":"`+strings.Repeat("h", 5000)+`"}`), 0o600))
	owned(t, filepath.Join(out, "end.json"))
	o, err := b.Observe(t.Context(), l.ID)
	if err != nil || o.ExitCode != 255 || strings.ContainsAny(o.Reason, "\x1b\n") || len(o.Host) > 300 {
		t.Errorf("%+v, %v", o, err)
	}
	r, err := b.StagedOutput(t.Context(), l.ID)
	must(t, err)
	if got := r.Status(); got.State != control.Exited || got.ExitCode != 255 {
		t.Errorf("status %+v", got)
	}
	_, err = r.Log(t.Context(), 0)
	_, err2 := r.Changes(t.Context())
	_, _, err3 := r.File(t.Context(), "passwd")
	_, _, err4 := r.File(t.Context(), "../log")
	if !errs.Is(err, errs.NotFound) || !errs.Is(err2, errs.NotFound) || !errs.Is(err3, errs.NotFound) || !errs.Is(err4, errs.Invalid) {
		t.Errorf("links are followed: %v, %v, %v, %v", err, err2, err3, err4)
	}
}

// owned makes a file the account's to which its sandbox was given, as HTCondor does what comes back.
func owned(t *testing.T, name string) {
	t.Helper()
	if os.Geteuid() == 0 {
		must(t, os.Lchown(name, 4711, 4711))
	}
}

// TestWhoseFiles: of the files in a sandbox only those are read that are its account's and have no other name, and of a
// log no more than a worker brings back.
func TestWhoseFiles(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.is("1.0", exits)
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	out := filepath.Join(b.records.Dir(l.ID), boxDir, "out")
	log := filepath.Join(out, "log")
	for name, text := range map[string]string{filepath.Join(out, "end.json"): `{"exit_code":3}`, log: "hello"} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
		owned(t, name)
	}
	must(t, os.Truncate(log, worker.MaxLog+10))
	r, err := b.StagedOutput(t.Context(), l.ID)
	must(t, err)
	for _, tc := range []struct{ from, want int64 }{{worker.MaxLog - 3, 3}, {worker.MaxLog, 0}, {worker.MaxLog + 5, 0}} {
		f, err := r.Log(t.Context(), tc.from)
		must(t, err)
		if n, err := io.Copy(io.Discard, f); n != tc.want || err != nil {
			t.Errorf("from %d there are %d bytes, %v; want %d", tc.from, n, err, tc.want)
		}
		must(t, f.Close())
	}
	if size := r.Status().LogSize; size != worker.MaxLog {
		t.Errorf("the log is told to have %d bytes", size)
	}
	must(t, os.Link(log, filepath.Join(out, "other")))
	if _, err := r.Log(t.Context(), 0); !errs.Is(err, errs.NotFound) {
		t.Errorf("a file with two names is read: %v", err)
	}
	must(t, os.Remove(filepath.Join(out, "other")))
	if os.Geteuid() == 0 {
		must(t, os.Lchown(log, 4712, 4712))
		if _, err := r.Log(t.Context(), 0); !errs.Is(err, errs.NotFound) {
			t.Errorf("another account's file is read: %v", err)
		}
	}
}

// TestSecretsStay: what travels is the job's owner's alone, the token of the link too, and that is nowhere else.
func TestSecretsStay(t *testing.T) {
	s := newCluster()
	b, launch := played(t, s)
	l := launch(1)
	l.Uplink = &control.Uplink{URL: "wss://s/api/v1/link", Token: "t0k3n"}
	l.App = &control.App{Launch: "l-1", Argv: []string{"true"}, Env: control.Env{"X": "s3cr3t"}}
	l.Spec.Inputs = []string{"data.txt"}
	must(t, os.MkdirAll(l.InputDir, 0o755))
	must(t, os.WriteFile(filepath.Join(l.InputDir, "data.txt"), nil, 0o666))
	defer syscall.Umask(syscall.Umask(0))
	must(t, b.Start(t.Context(), l))
	if told := fmt.Sprint(s.sent); strings.Contains(told, "t0k3n") || strings.Contains(told, "s3cr3t") {
		t.Errorf("the batch system is told a secret: %s", told)
	}
	sandbox := filepath.Join(b.records.Dir(l.ID), boxDir)
	secrets, files := 0, 0
	must(t, filepath.WalkDir(b.cfg.Dir, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		must(t, err)
		if name == sandbox || strings.HasPrefix(name, sandbox+"/") {
			files++
			own := info.Sys().(*syscall.Stat_t)
			if mode := info.Mode().Perm(); int(own.Uid) != l.Account.UID || int(own.Gid) != l.Account.GID || mode != 0o600 && !e.IsDir() || mode != 0o700 && e.IsDir() {
				t.Errorf("%s is %v, of %d:%d", name, info.Mode(), own.Uid, own.Gid)
			}
		}
		if e.IsDir() {
			return nil
		}
		data, err := os.ReadFile(name)
		if strings.Contains(string(data), "t0k3n") || strings.Contains(string(data), "s3cr3t") {
			secrets++
			if !strings.HasPrefix(name, sandbox+"/link/") {
				t.Errorf("%s holds a secret", name)
			}
		}
		return err
	}))
	if secrets != 2 || files < 8 {
		t.Errorf("%d of %d files hold the secrets", secrets, files)
	}
}
