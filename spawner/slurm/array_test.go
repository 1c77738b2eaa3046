package slurm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
)

// entries are jobs of a service, which have directories.
func entries(t testing.TB, s *system, n int) (all []batch.Entry) {
	for i := range n {
		id := spawner.ID(fmt.Sprintf("j-%d", i))
		all = append(all, batch.Entry{ID: id, Run: fmt.Sprintf("l-%d", i), Sandbox: s.cfg.Box(id)})
		must(t, os.Mkdir(filepath.Dir(string(all[i].Sandbox)), 0o755))
	}
	return all
}

// TestArrays: what is submitted together is as many arrays as Slurm's limit asks for. A service that was started anew
// knows all tasks again, and forgets an array when nothing is left of its workloads.
func TestArrays(t *testing.T) {
	var told []command.Command
	run := func(_ context.Context, c command.Command) ([]byte, error) {
		if c.Name == "scontrol" {
			return []byte("MaxArraySize            = 3\nMaxJobCount             = 10000\n"), nil
		}
		told = append(told, c)
		return fmt.Appendf(nil, "%d\n", 10+len(told)), nil
	}
	s := service(t, run)
	jobs, err := s.Submit(t.Context(), batch.Submission{Login: "alice", GID: 100, Head: "--mem=1M\n/shared/slipway", Entries: entries(t, s, 7)})
	must(t, err)
	var names, lines []string
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	if diff := cmp.Diff([]string{"11_0", "11_1", "11_2", "12_0", "12_1", "12_2", "13"}, names); diff != "" {
		t.Error(diff)
	}
	if len(told) != 3 || !strings.Contains(told[1].Input, "1) cd "+string(s.cfg.Box("j-4"))+" ;;") || !slices.Contains(told[1].Args, "--array=0-2") {
		t.Fatalf("told %+v", told)
	}
	for i, c := range told {
		for _, arg := range c.Args {
			if comment, ok := strings.CutPrefix(arg, "--comment="); ok {
				lines = append(lines, fmt.Sprintf("@1%d|2|alice|RUNNING|None|N/A|n1|%s\n", i+1, comment))
			}
		}
	}
	again := newSystem(s.cfg, run)
	seen, err := parseQueue(lines[0]+lines[1]+strings.Replace(lines[1], "|2|", "|N/A|", 1), "@", again.owned)
	if err != nil || len(seen) != 2 || seen[0].ID != "j-2" || seen[1].ID != "j-5" || seen[1].Run != "l-5" || seen[1].Name != "12_2" || seen[1].Task != 2 {
		t.Errorf("after a restart: %+v, %v", seen, err)
	}
	stranger, err := parseQueue(strings.Replace(lines[0], "alice", "mallory", 1), "@", again.owned)
	if err != nil || len(stranger) > 0 {
		t.Errorf("of another's: %+v, %v", stranger, err)
	}
	for i := range 7 {
		if i != 4 {
			must(t, os.RemoveAll(filepath.Dir(string(s.cfg.Box(spawner.ID(fmt.Sprintf("j-%d", i)))))))
		}
	}
	again.arrays.sweep()
	left, err := os.ReadDir(filepath.Join(s.cfg.Dir, arraysDir))
	must(t, err)
	if len(left) != 1 || again.arrays.task(left[0].Name(), 1).ID != "j-4" {
		t.Errorf("there stay %v", left)
	}
	if lost := s.arrays.task("a-lost", 0); lost.ID != "a-lost" {
		t.Errorf("a task of an array without a file is %+v", lost)
	}
}

// TestNames: the names of jobs and tasks, as Slurm prints them and as it is told them.
func TestNames(t *testing.T) {
	for name, want := range map[string][]int{
		"5": {-1}, "5_3": {3}, "5_[3]": {3}, "5_[0-2,7%4]": {0, 1, 2, 7},
		"": nil, "0": nil, "x": nil, "5_": nil, "5_[2-1]": nil, "5_[0-9999999999]": nil, "5_-1": nil, "5+0": nil, "5_[0-4000000,1-4000000]": nil,
	} {
		if _, got, ok := parseName(name); !slices.Equal(got, want) || ok != (want != nil) {
			t.Errorf("%q: %v, %t, want %v", name, got, ok, want)
		}
	}
	if diff := cmp.Diff([]string{"7", "5_[3,9]", "6_[0]"}, expressions([]string{"5_3", "7", "6_0", "5_9"})); diff != "" {
		t.Error(diff)
	}
}

// TestRealArray: the tasks of an array run each in its sandbox, and are taken back and ended singly.
func TestRealArray(t *testing.T) {
	w := newWorld(t)
	w.backend(t) // makes the directory
	var all []batch.Entry
	for range 4 {
		l := w.launch(t)
		box := w.cfg.Box(l.ID)
		must(t, os.Mkdir(filepath.Dir(string(box)), 0o711))
		must(t, box.Fill(batch.Contents{Launch: l, UID: aliceUID, GID: 100, Sync: (*os.File).Sync}))
		all = append(all, batch.Entry{ID: l.ID, Run: l.Launch, Sandbox: box})
	}
	l := w.launch(t)
	l.Spec.Resources.CPUs = 24 // of 64: two run
	d, err := w.system().Describe(l.Workload, batch.Record{Program: filepath.Join(w.agentDir, "slipway")})
	must(t, err)
	jobs, err := w.system().Submit(t.Context(), batch.Submission{Login: "alice", GID: 100, Head: d.Head, Entries: all})
	must(t, err)
	name := func(task int) string { return jobs[task].Name }
	remove := func(unbegun bool, names ...string) {
		t.Helper()
		must(t, w.system().Remove(context.Background(), "alice", names, unbegun))
	}
	t.Cleanup(func() { remove(false, name(0), name(1), name(2), name(3)) })
	shows := func(what string, want ...spawner.Existence) {
		t.Helper()
		testenv.Until(t, what, testenv.Hang, func() bool {
			seen, err := w.system().Queue(t.Context())
			must(t, err)
			got := make([]spawner.Existence, len(all))
			for _, j := range seen {
				if i := slices.IndexFunc(all, func(e batch.Entry) bool { return e.ID == j.ID }); j.Name == name(i) {
					got[i] = j.Seen.Existence
				}
			}
			return slices.Equal(got, want)
		})
	}
	const up, queued = spawner.Up, spawner.Queued
	shows("two run", up, up, queued, queued)
	remove(true, name(0), name(2))
	shows("one of those that wait is taken back", up, up, "", queued)
	remove(false, name(0))
	shows("one has ended, and the last runs", spawner.Exited, up, "", up)
	testenv.Until(t, "what its worker leaves is there", testenv.Hang, func() bool {
		_, err := all[0].Sandbox.Output(all[0].ID)
		return err == nil
	})
}

// TestLimitsAreAskedSeldom: one question serves an hour's submissions.
func TestLimitsAreAskedSeldom(t *testing.T) {
	asked := 0
	s := service(t, func(_ context.Context, c command.Command) ([]byte, error) {
		if c.Args[1] == "config" {
			asked++
		}
		return []byte("MaxArraySize = 1001\n"), nil
	})
	for range 2 {
		if l, err := s.limits(t.Context()); l.tasks != 1001 || l.maxTime != 0 || err != nil {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if s.known.Store(&limits{asked: time.Now().Add(-2 * limitsKept)}); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if _, err := s.limits(t.Context()); err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}
