package htcondor

import (
	"context"
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
	"slipway/spawner/htcondor/commands"
)

// schedd plays HTCondor's commands over a queue in memory.
type schedd struct {
	mu      sync.Mutex // guards the fields below
	cluster int
	jobs    map[string]string // the job in JSON without its braces, by name
	past    map[string]string
	order   []string
	calls   []commands.Command
	refuse  func(rows []string) error      // a submission, before it is taken
	before  func(c commands.Command)       // something else happens first
	after   func(c commands.Command) error // the answer, after it was done
	down    bool
}

func newSchedd() *schedd { return &schedd{jobs: map[string]string{}, past: map[string]string{}} }

func (s *schedd) run(_ context.Context, c commands.Command) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	if s.down && c.Name != "condor_token_create" {
		return nil, errs.New(errs.Unavailable, "HTCondor's queue does not answer")
	}
	if s.before != nil {
		s.before(c)
	}
	out, err := s.doLocked(c)
	if err == nil && s.after != nil {
		err = s.after(c)
	}
	return []byte(out), err
}

func (s *schedd) doLocked(c commands.Command) (string, error) {
	switch c.Name {
	case "condor_token_create":
		return "a.b.c\n", nil
	case "condor_submit":
		return s.submitLocked(filepath.Base(c.Tokens), c.Input)
	case "condor_rm":
		names, unbegun := c.Args, len(c.Args) == 2 && c.Args[0] == "-constraint"
		if unbegun {
			names = strings.Split(strings.Split(c.Args[1], `"`)[3], ",")
		}
		for _, name := range names {
			if unbegun && strings.Contains(s.jobs[name], "NumShadowStarts") {
				continue
			}
			if text, ok := s.jobs[name]; ok {
				s.past[name] = strings.Replace(text, `"JobStatus":1`, `"JobStatus":3`, 1)
			}
			delete(s.jobs, name)
		}
		return "", nil
	case "condor_q":
		return s.listLocked(s.jobs), nil
	case "condor_history":
		return s.listLocked(s.past), nil
	default:
		return "", fmt.Errorf("no command %s", c.Name)
	}
}

func (s *schedd) listLocked(of map[string]string) string {
	var all []string
	for _, name := range s.order {
		if text, ok := of[name]; ok {
			all = append(all, "{"+text+"}")
		}
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (s *schedd) submitLocked(login, text string) (string, error) {
	_, table, _ := strings.Cut(text, "from (\n")
	rows := strings.Split(strings.TrimSuffix(table, "\n)\n"), "\n")
	if s.refuse != nil {
		if err := s.refuse(rows); err != nil {
			return "", err
		}
	}
	s.cluster++
	for n, r := range rows {
		f := strings.Split(r, ",")
		name := fmt.Sprintf("%d.%d", s.cluster, n)
		s.order = append(s.order, name)
		s.jobs[name] = fmt.Sprintf(`"ClusterId":%d,"ProcId":%d,"JobStatus":1,"Owner":"%s","SlipwayInstance":"t1","SlipwayId":"%s","SlipwayLaunch":"%s","SlipwayMark":"%s"`,
			s.cluster, n, login, f[0], f[1], f[3])
	}
	return fmt.Sprintf("%d.0 - %d.%d\n", s.cluster, s.cluster, len(rows)-1), nil
}

// is changes a job's attributes.
func (s *schedd) is(name, old, now string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[name] = strings.Replace(s.jobs[name], old, now, 1)
}

func (s *schedd) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c.Name == name {
			n++
		}
	}
	return n
}

func (s *schedd) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for name := range s.jobs {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// played returns a Backend over a schedd in memory, and what makes launches for it.
func played(t *testing.T, s *schedd) (*Backend, func(n int) spawner.Launch) {
	t.Helper()
	root := t.TempDir()
	b := inMemory(t, Config{Dir: filepath.Join(root, "jobs"), PollEvery: time.Millisecond}, s.run)
	must(t, os.MkdirAll(filepath.Join(b.cfg.Dir, tokensDir), 0o700))
	uid, gid := testIDs()
	return b, func(n int) spawner.Launch {
		return spawner.Launch{
			Workload: spawner.Workload{ID: spawner.ID(fmt.Sprintf("j-%d", n)), Kind: spawner.Job, Owner: "alice", Launch: fmt.Sprintf("l-%d", n), Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}}},
			Account:  spawner.Account{UID: uid, GID: gid, Login: "alice", Home: "/home/alice"},
			Dir:      filepath.Join(root, "work"), InputDir: filepath.Join(root, "work", "inputs"), AgentDir: root, Report: func(string, int) {},
		}
	}
}

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
	s := newSchedd()
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
	if n := s.count("condor_submit"); n > 10 {
		t.Errorf("%d submissions for 60 jobs of two users", n)
	}
	if got := s.names(); len(got) != 60 {
		t.Errorf("%d jobs are in the queue", len(got))
	}
	for _, c := range s.calls {
		if c.Name == "condor_submit" && strings.Contains(c.Tokens, "bob") != strings.Contains(c.Input, `"bob"`) {
			t.Errorf("submitted with the token in %s: %s", c.Tokens, c.Input)
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
	s := newSchedd()
	b, launch := played(t, s)
	room := 7
	s.refuse = func(rows []string) error {
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
	if n := s.count("condor_submit"); n > 40 {
		t.Errorf("%d submissions", n)
	}
}

// TestAllRefused: what none would be taken for is not tried for each.
func TestAllRefused(t *testing.T) {
	s := newSchedd()
	b, launch := played(t, s)
	s.refuse = func([]string) error { return errs.New(errs.Forbidden, "not here") }
	for i, err := range startAll(t, b, someLaunches(launch, 50)) {
		if !errs.Is(err, errs.Forbidden) {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if n := s.count("condor_submit"); n > 30 {
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
			s := newSchedd()
			b, launch := played(t, s)
			s.after = func(c commands.Command) error {
				if c.Name != "condor_submit" {
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
		s := newSchedd()
		b, launch := played(t, s)
		l := launch(1)
		must(t, b.Start(t.Context(), l))
		rec, _, err := b.records.Get(l.ID)
		must(t, err)
		rec.Job = "" // as it was saved before
		must(t, b.records.Put(rec))
		if left {
			_, err := s.run(t.Context(), commands.Command{Name: "condor_rm", Args: []string{"1.0"}})
			must(t, err)
		}
		again := assemble(b.cfg, s.run)
		must(t, again.Start(t.Context(), l))
		o, err := again.Observe(t.Context(), l.ID)
		must(t, err)
		if want := map[bool]spawner.Existence{false: spawner.Queued, true: spawner.Exited}[left]; o.Existence != want || s.count("condor_submit") != 1 {
			t.Errorf("left %v: %+v after %d submissions", left, o, s.count("condor_submit"))
		}
	}
}

// TestStaleRun: a later run replaces what an earlier one has left, in the queue and here.
func TestStaleRun(t *testing.T) {
	s := newSchedd()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.is("1.0", `"JobStatus":1`, `"JobStatus":1,"NumShadowStarts":1,"LastRemoteHost":"slot1@n1","VacateReason":"the owner came back"`)
	want := spawner.Observation{Existence: spawner.Exited, ExitCode: 1, Evicted: true, Host: "n1", Reason: "the owner came back"}
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
	s := newSchedd()
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
	s.is("2.0", `"JobStatus":1`, `"JobStatus":2,"NumShadowStarts":1`)
	clock.Sleep(t.Context(), 2*b.cfg.PollEvery)
	if err := b.Remove(t.Context(), l.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("Remove of what runs = %v", err)
	}
}

// TestStopMany: many are ended by few commands.
func TestStopMany(t *testing.T) {
	s := newSchedd()
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
	if n := s.count("condor_rm"); n > 10 || len(s.names()) > 0 {
		t.Errorf("%d commands; left: %q", n, s.names())
	}
}

// TestQueueDown: that HTCondor does not answer is never taken for an answer.
func TestQueueDown(t *testing.T) {
	s := newSchedd()
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
	s := newSchedd()
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
	if err := b.Start(t.Context(), l); !errs.Is(err, errs.NoCapacity) || b.records.Has(l.ID) || s.count("condor_submit") > 0 {
		t.Errorf("Start = %v", err)
	}
	full, b.accounts.held = false, map[string]answer{}
	must(t, b.Start(t.Context(), l))
}

// TestOddFiles: what lies in a sandbox is the user's. No link is followed, no pipe waited for, and no odd word taken
// over.
func TestOddFiles(t *testing.T) {
	s := newSchedd()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.is("1.0", `"JobStatus":1`, `"JobStatus":4,"NumShadowStarts":1,"ExitCode":0`)
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
	s := newSchedd()
	b, launch := played(t, s)
	l := launch(1)
	must(t, b.Start(t.Context(), l))
	s.is("1.0", `"JobStatus":1`, `"JobStatus":4,"NumShadowStarts":1,"ExitCode":0`)
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
	s := newSchedd()
	b, launch := played(t, s)
	l := launch(1)
	l.Uplink = &control.Uplink{URL: "wss://s/api/v1/link", Token: "t0k3n"}
	l.App = &control.App{Launch: "l-1", Argv: []string{"true"}, Env: control.Env{"X": "s3cr3t"}}
	l.Spec.Inputs = []string{"data.txt"}
	must(t, os.MkdirAll(l.InputDir, 0o755))
	must(t, os.WriteFile(filepath.Join(l.InputDir, "data.txt"), nil, 0o666))
	defer syscall.Umask(syscall.Umask(0))
	must(t, b.Start(t.Context(), l))
	for _, c := range s.calls {
		if strings.Contains(strings.Join(c.Args, " ")+c.Input, "t0k3n") || strings.Contains(c.Input, "s3cr3t") {
			t.Errorf("%s is told a secret", c.Name)
		}
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
