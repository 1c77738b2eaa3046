package htcondor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/agent/control"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
)

// schedd plays HTCondor's commands over a queue in memory.
type schedd struct {
	mu      sync.Mutex // guards the fields below
	cluster int
	jobs    map[string]string // the job in JSON without its braces, by name
	order   []string
	calls   []command.Command
	past    map[string]string
}

func newSchedd() *schedd { return &schedd{jobs: map[string]string{}, past: map[string]string{}} }

func (s *schedd) run(_ context.Context, c command.Command) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	out, err := s.doLocked(c)
	return []byte(out), err
}

func (s *schedd) doLocked(c command.Command) (string, error) {
	switch c.Name {
	case "condor_token_create":
		return "a.b.c\n", nil
	case "condor_submit":
		return s.submitLocked(loginOf(c), c.Input)
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

// loginOf returns whose token a command shows.
func loginOf(c command.Command) string {
	for _, v := range c.Env {
		if dir, ok := strings.CutPrefix(v, "_CONDOR_SEC_TOKEN_DIRECTORY="); ok {
			return filepath.Base(dir)
		}
	}
	return ""
}

// played returns a backend over a schedd in memory, and what makes launches for it.
func played(t *testing.T, s *schedd) (*batch.Backend, func(n int) spawner.Launch) {
	t.Helper()
	root := t.TempDir()
	sys := inMemory(t, Config{Config: batch.Config{Dir: filepath.Join(root, "jobs"), PollEvery: time.Millisecond}}, s.run)
	must(t, os.MkdirAll(filepath.Join(sys.cfg.Dir, tokensDir), 0o700))
	b, err := batch.New(sys.cfg.Config, sys)
	must(t, err)
	uid, gid := testIDs()
	return b, func(n int) spawner.Launch {
		return spawner.Launch{
			Workload: spawner.Workload{ID: spawner.ID(fmt.Sprintf("j-%d", n)), Kind: spawner.Job, Owner: "alice", Launch: fmt.Sprintf("l-%d", n), Spec: spawner.Spec{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}}},
			Account:  spawner.Account{UID: uid, GID: gid, Login: "alice", Home: "/home/alice"},
			Dir:      filepath.Join(root, "work"), InputDir: filepath.Join(root, "work", "inputs"), AgentDir: root, Report: func(string, int) {},
		}
	}
}

func startAll(t *testing.T, b *batch.Backend, launches []spawner.Launch) []error {
	t.Helper()
	all := make([]error, len(launches))
	var wg sync.WaitGroup
	for i, l := range launches {
		wg.Go(func() { all[i] = b.Start(t.Context(), l) })
	}
	wg.Wait()
	return all
}

// TestWhoseToken: each account's jobs are submitted by its own token, and no command is told a secret.
func TestWhoseToken(t *testing.T) {
	s := newSchedd()
	b, launch := played(t, s)
	for i, login := range []string{"alice", "bob", "alice"} {
		l := launch(i)
		l.Account.Login, l.Owner = login, spawner.User(login)
		l.Uplink = &control.Uplink{URL: "wss://s/api/v1/link", Token: "t0k3n"}
		l.App = &control.App{Launch: "l-1", Argv: []string{"true"}, Env: control.Env{"X": "s3cr3t"}}
		must(t, b.Start(t.Context(), l))
	}
	submissions := 0
	for _, c := range s.calls {
		if told := fmt.Sprint(c.Args, c.Env, c.Input); strings.Contains(told, "t0k3n") || strings.Contains(told, "s3cr3t") {
			t.Errorf("%s is told a secret", c.Name)
		}
		if c.Name != "condor_submit" {
			continue
		}
		submissions++
		if login := loginOf(c); !strings.Contains(c.Input, `"`+login+`"`) {
			t.Errorf("submitted with the token of %s: %s", login, c.Input)
		}
	}
	if submissions != 3 {
		t.Errorf("%d submissions", submissions)
	}
}

// TestSubmissionErrors: how a submission went wrong is told so that it can be acted upon.
func TestSubmissionErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		err             error
		killed, tooMany bool
	}{
		"killed":   {&command.Failure{Name: "condor_submit", Code: -1}, true, false},
		"too many": {&command.Failure{Name: "condor_submit", Code: 1, Stderr: "Number of submitted jobs would exceed MAX_JOBS_PER_SUBMISSION"}, false, true},
		"refused":  {&command.Failure{Name: "condor_submit", Code: 1, Stderr: "no"}, false, false},
	} {
		s := inMemory(t, Config{}, func(_ context.Context, c command.Command) ([]byte, error) {
			if c.Name == "condor_submit" {
				return nil, tc.err
			}
			return []byte("a.b.c"), nil
		})
		_, err := s.Submit(t.Context(), batch.Submission{Login: "alice", Entries: make([]batch.Entry, 2)})
		_, killed := errors.AsType[batch.Killed](err)
		if _, tooMany := errors.AsType[batch.TooMany](err); !errors.Is(err, tc.err) || killed != tc.killed || tooMany != tc.tooMany {
			t.Errorf("%s: %#v", name, err)
		}
	}
}
