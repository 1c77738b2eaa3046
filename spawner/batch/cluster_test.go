package batch

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// testKey makes the marks of tests.
const testKey = "no key of anybody but of the tests"

// What is done to a cluster.
const (
	looked    = "queue"
	asked     = "history"
	submitted = "submit"
	removed   = "remove"
)

// cluster is a batch system in memory.
type cluster struct {
	mu     sync.Mutex // guards the fields below
	number int64
	jobs   map[string]Job // by name
	past   map[string]Job
	order  []string
	calls  []string
	sent   []Submission
	refuse func(entries []Entry) error // a submission, before it is taken
	before func(call string)           // something else happens first
	after  func(call string) error     // the answer, after it was done
	down   bool
}

var _ System = (*cluster)(nil)

func newCluster() *cluster { return &cluster{jobs: map[string]Job{}, past: map[string]Job{}} }

func (*cluster) Title() string { return "HTCondor" }

func (*cluster) Arch(goarch string) string { return goarch }

func (*cluster) Check(context.Context, string) error { return nil }

func (*cluster) Describe(w spawner.Workload, r Record) (Description, error) {
	return Description{Head: string(w.Owner)}, nil
}

func (*cluster) Judge(context.Context, spawner.Workload, string) error { return nil }

func (*cluster) Why(context.Context, spawner.Workload, Record, spawner.Observation) (spawner.Explanation, error) {
	return spawner.Explanation{}, nil
}

// call does what is asked, unless the cluster is down.
func (s *cluster) call(name string, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
	if s.down {
		return errs.New(errs.Unavailable, "the queue does not answer")
	}
	if s.before != nil {
		s.before(name)
	}
	err := do()
	if err == nil && s.after != nil {
		err = s.after(name)
	}
	return err
}

func (s *cluster) list(name string, of *map[string]Job) (all []Job, err error) {
	err = s.call(name, func() error {
		for _, n := range s.order {
			if j, ok := (*of)[n]; ok {
				all = append(all, j)
			}
		}
		return nil
	})
	return all, err
}

func (s *cluster) Queue(context.Context) ([]Job, error)   { return s.list(looked, &s.jobs) }
func (s *cluster) History(context.Context) ([]Job, error) { return s.list(asked, &s.past) }

func (s *cluster) Submit(_ context.Context, all Submission) (jobs []Job, err error) {
	err = s.call(submitted, func() error {
		if s.refuse != nil {
			if err := s.refuse(all.Entries); err != nil {
				return err
			}
		}
		jobs = s.takeLocked(all)
		return nil
	})
	return jobs, err
}

// takeLocked takes a submission.
func (s *cluster) takeLocked(all Submission) (jobs []Job) {
	s.sent = append(s.sent, all)
	s.number++
	for n, e := range all.Entries {
		j := Job{
			ID: e.ID, Run: e.Run, Login: all.Login, Name: fmt.Sprintf("%d.%d", s.number, n), Number: s.number,
			Task: int64(n), Seen: spawner.Observation{Existence: spawner.Queued},
		}
		s.order, s.jobs[j.Name] = append(s.order, j.Name), j
		jobs = append(jobs, j)
	}
	return jobs
}

func (s *cluster) Remove(_ context.Context, _ string, names []string, unbegun bool) error {
	return s.call(removed, func() error {
		for _, name := range names {
			j, ok := s.jobs[name]
			if !ok || unbegun && j.Begun {
				continue
			}
			s.past[name] = ended(j, "")
			delete(s.jobs, name)
		}
		return nil
	})
}

// ended is a job that was taken out of the queue.
func ended(j Job, why string) Job {
	j.End = End{Code: 1, Reason: "it was removed from the queue: " + why, Remedy: "ask"}
	return j
}

// begins has a job run, on a host.
func begins(host string) func(*Job) {
	return func(j *Job) { j.Begun, j.Seen = true, spawner.Observation{Existence: spawner.Up, Host: host} }
}

// exits has a job be over.
func exits(j *Job) { j.Begun, j.Seen = true, spawner.Observation{Existence: spawner.Exited} }

// is changes a job.
func (s *cluster) is(name string, change func(*Job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[name]
	change(&j)
	s.jobs[name] = j
}

func (s *cluster) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == name {
			n++
		}
	}
	return n
}

func (s *cluster) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for name := range s.jobs {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// vanish takes jobs out of the queue; those of which told says so are in the history.
func (s *cluster) vanish(told func(n int) bool) (gone map[string]Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone = s.jobs
	s.jobs = map[string]Job{}
	for n, name := range s.order {
		if told(n) {
			s.past[name] = ended(gone[name], "by hand")
		}
	}
	return gone
}

// testIDs are the user's of tests, whom they can give files.
func testIDs() (uid, gid int) {
	if uid = os.Geteuid(); uid > 0 {
		return uid, os.Getegid()
	}
	return 4711, 4711
}

// inMemory returns a Backend over a cluster.
func inMemory(t testing.TB, cfg Config, s System) *Backend {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Name, cfg.Instance, cfg.MarkKey, cfg.Submitter = "htcondor", "t1", []byte(testKey), "condor_submit"
	cfg.Patience = 20 * time.Minute
	if cfg.Lookup == nil {
		cfg.Lookup = func(string) (uid, gid int, err error) {
			uid, gid = testIDs()
			return uid, gid, nil
		}
	}
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg = cfg.Filled("HTCondor")
	must(t, cfg.Check())
	return assemble(cfg, s)
}

// played returns a Backend over a cluster, and what makes launches for it.
func played(t *testing.T, s *cluster) (*Backend, func(n int) spawner.Launch) {
	t.Helper()
	root := t.TempDir()
	b := inMemory(t, Config{Dir: filepath.Join(root, "jobs"), PollEvery: time.Millisecond}, s)
	must(t, os.MkdirAll(b.cfg.Dir, 0o700))
	uid, gid := testIDs()
	return b, func(n int) spawner.Launch {
		return spawner.Launch{
			Workload: spawner.Workload{ID: spawner.ID(fmt.Sprintf("j-%d", n)), Kind: spawner.Job, Owner: "alice", Launch: fmt.Sprintf("l-%d", n), Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}}},
			Account:  spawner.Account{UID: uid, GID: gid, Login: "alice", Home: "/home/alice"},
			Dir:      filepath.Join(root, "work"), InputDir: filepath.Join(root, "work", "inputs"), AgentDir: root, Report: func(string, int) {},
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until looks again and again until ok.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testenv.Until(t, what, testenv.Hang, ok)
}
