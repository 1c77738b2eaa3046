// Package dummybatch is a batch system in memory: a new one as TestANewBackend adds it to the tree.
package dummybatch

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/spawner"
	"slipway/spawner/batch"
)

// New makes its backend, below a directory.
func New(dir string, key []byte, log *slog.Logger) (*batch.Backend, error) {
	return Over(&System{jobs: map[string]batch.Job{}}, dir, key, log)
}

// Over makes the backend of a system that is there.
func Over(s *System, dir string, key []byte, log *slog.Logger) (*batch.Backend, error) {
	cfg := batch.Config{
		Name: "dummybatch", Dir: filepath.Join(dir, "dummybatch"), Instance: "t1", MarkKey: key, Submitter: "dummysubmit",
		Patience: time.Minute, PollEvery: 5 * time.Millisecond, Logger: log,
		Lookup: func(string) (uid, gid int, err error) { return Account, Account, nil },
	}.Filled("Dummy")
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return batch.New(cfg, s)
}

// Account is the number of everybody.
var Account = nobodyBut()

// nobodyBut returns whom this process can give files.
func nobodyBut() int {
	if uid := os.Geteuid(); uid > 0 {
		return uid
	}
	return 4711
}

// System starts each job at once, but what asks for too much, and does what the test's agent is asked to.
type System struct {
	mu     sync.Mutex // guards what follows
	number int64
	jobs   map[string]batch.Job
}

var _ batch.System = (*System)(nil)

func (*System) Title() string { return "Dummy" }

func (*System) Arch(goarch string) string { return goarch }

func (*System) Check(context.Context, string) error { return nil }

// Queue returns all jobs: one that has ended stays until it is removed.
func (s *System) Queue(context.Context) ([]batch.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []batch.Job
	for _, j := range s.jobs {
		all = append(all, j)
	}
	return all, nil
}

func (*System) History(context.Context) ([]batch.Job, error) { return nil, nil }

const tooLarge = "too large"

func (*System) Describe(w spawner.Workload, _ batch.Record) (batch.Description, error) {
	if w.Spec.Resources.CPUs > 64 {
		return batch.Description{Head: tooLarge}, nil
	}
	return batch.Description{Head: w.Spec.Env["SLIPWAY_TEST_AGENT"]}, nil
}

func (s *System) Submit(_ context.Context, all batch.Submission) (jobs []batch.Job, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range all.Entries {
		s.number++
		j := batch.Job{
			ID: e.ID, Run: e.Run, Login: all.Login, Name: strconv.FormatInt(s.number, 10), Number: s.number,
			Seen: spawner.Observation{Existence: spawner.Queued},
		}
		if all.Head != tooLarge {
			j.Begun, j.Seen.Existence = true, spawner.Up
		}
		if code, exits := strings.CutPrefix(all.Head, "exit "); exits {
			j.Seen.Existence = spawner.Exited
			j.Seen.ExitCode, _ = strconv.Atoi(code)
		}
		s.jobs[j.Name] = j
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func (s *System) Remove(_ context.Context, _ string, names []string, unbegun bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if !unbegun || !s.jobs[name].Begun {
			delete(s.jobs, name)
		}
	}
	return nil
}

func (*System) Judge(context.Context, spawner.Workload, string) error { return nil }

func (*System) Why(context.Context, spawner.Workload, batch.Record, spawner.Observation) (spawner.Explanation, error) {
	return spawner.Explanation{Summary: "it is too large"}, nil
}
