package slurm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/batch"
	"slipway/spawner/batch/command"
	"slipway/spawner/slurm/slurmtest"
	"slipway/spawner/spawnertest"
)

// The cluster that all tests of this package share.
var shared slurmtest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

const (
	aliceUID = 41234
	testKey  = "no key of anybody but of the tests"
)

// worlds counts the services of this run, serials the workloads.
var worlds, serials atomic.Int64

// world is a cluster's part that one service has to itself.
type world struct {
	cluster  *slurmtest.Cluster
	cfg      Config
	agentDir string
}

// built returns the stand-in for Slipway's program, which is built once.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "slipway")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", name, "slipway/spawner/batch/testdata/standin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the stand-in: %w\n%s", err, out)
	}
	return os.ReadFile(name)
})

func newWorld(t testing.TB) *world {
	t.Helper()
	cluster := shared.Cluster(t)
	cluster.AddUser(t, "alice", aliceUID)
	program, err := built()
	must(t, err)
	root := cluster.TempDir(t)
	w := &world{cluster: cluster, agentDir: filepath.Join(root, "agent")}
	must(t, os.Mkdir(w.agentDir, 0o755))
	must(t, os.WriteFile(filepath.Join(w.agentDir, "slipway"), program, 0o755))
	w.cfg = Config{
		GRES: map[string]string{"whole": "gpu:v100:1"},
		Config: batch.Config{
			Dir: filepath.Join(root, "jobs"), Bin: cluster.Bin, Instance: fmt.Sprintf("t%d-%d", os.Getpid(), worlds.Add(1)),
			MarkKey: []byte(testKey), Grace: time.Second, PollEvery: 150 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		},
	}
	return w
}

func (w *world) backend(t testing.TB) *batch.Backend {
	t.Helper()
	b, err := New(w.cfg)
	must(t, err)
	return b
}

// system is Slurm as the backend sees it.
func (w *world) system() *system {
	cfg := w.cfg.filled()
	return newSystem(cfg, commandsIn(cfg.Bin))
}

// launch returns a job of alice's, with all that the Manager would have made for it.
func (w *world) launch(t testing.TB) spawner.Launch {
	t.Helper()
	id := spawner.ID(fmt.Sprintf("j-%016d", serials.Add(1)))
	return spawner.Launch{
		Workload: spawner.Workload{
			ID: id, Kind: spawner.Job, Owner: "alice@cern.ch", Launch: "l-" + string(id),
			Spec: spawner.Spec{Env: map[string]string{}, Resources: spawner.Resources{CPUs: 1, Memory: 64 << 20}},
		},
		Account:  spawner.Account{UID: aliceUID, GID: 100, Login: "alice", HomeDir: "/home/alice", Home: "/home/alice"},
		AgentDir: w.agentDir, Report: func(string, int) {},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await looks until a workload shows one of the given states.
func await(t testing.TB, b *batch.Backend, id spawner.ID, want ...spawner.Existence) (o spawner.Observation) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("%s is %v", id, want), testenv.Hang, func() bool {
		var err error
		o, err = b.Observe(t.Context(), id)
		must(t, err)
		return slices.Contains(want, o.Existence)
	})
	return o
}

func TestConformance(t *testing.T) {
	spawnertest.Run(t, func(t *testing.T) spawnertest.Subject {
		w := newWorld(t)
		return spawnertest.Subject{
			Backend: w.backend(t),
			Launch:  func(t *testing.T) spawner.Launch { return w.launch(t) },
			Again:   func(t *testing.T) spawner.Backend { return w.backend(t) },
			Remote:  true, Parallel: true,
			Unfit: func(t *testing.T) spawner.Launch {
				w.take(t, "gpu:v100:1")
				l := w.launch(t)
				l.Spec.GPU.Mode = "whole"
				return l
			},
		}
	})
}

// take has a job of the administrator's hold a resource until the test ends.
func (w *world) take(t testing.TB, gres string) {
	t.Helper()
	job := w.cluster.Admin(t, "sbatch", "--parsable", "--gres="+gres, "--output=/dev/null", "--mem=16M", "--wrap=sleep infinity")
	t.Cleanup(func() { w.cluster.Admin(t, "scancel", job) })
	testenv.Until(t, "the resource is taken", testenv.Hang, func() bool {
		return w.cluster.Admin(t, "squeue", "--noheader", "--jobs="+job, "--format=%T") == "RUNNING"
	})
}

// jobOf returns the name of a workload's job.
func (w *world) jobOf(t testing.TB, id spawner.ID) string {
	t.Helper()
	jobs, err := w.system().Queue(t.Context())
	must(t, err)
	for _, j := range jobs {
		if j.ID == id {
			return j.Name
		}
	}
	t.Fatalf("%s has no job", id)
	return ""
}

// TestRealWords: what Slurm and its administrator do to jobs is told in plain words.
func TestRealWords(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t)
	start := func(change func(*spawner.Launch)) spawner.ID {
		l := w.launch(t)
		change(&l)
		must(t, b.Start(t.Context(), l))
		t.Cleanup(func() {
			must(t, errors.Join(b.Stop(context.Background(), l.ID, 0), b.Remove(context.Background(), l.ID)))
		})
		return l.ID
	}
	canceled := start(func(*spawner.Launch) {})
	left := start(func(l *spawner.Launch) { l.Spec.Env[spawnertest.AgentEnv] = "leave" })
	// more than the node has beside what runs there: it waits
	waits := start(func(l *spawner.Launch) { l.Spec.Resources.CPUs = 64 })
	await(t, b, canceled, spawner.Up)
	o := await(t, b, left, spawner.Exited)
	if o.ExitCode != 3 || o.Reason != "it said so" || o.Remedy != "ask it" || o.Tail != "the last line" || o.Host == "" {
		t.Errorf("what its worker said: %+v", o)
	}
	if _, err := b.StagedOutput(t.Context(), left); err != nil {
		t.Error(err)
	}
	if o := await(t, b, waits, spawner.Queued); o.Detail == "" {
		t.Errorf("what waits: %+v", o)
	}
	w.cluster.Admin(t, "scontrol", "hold", w.jobOf(t, waits))
	if o := await(t, b, waits, spawner.Held); o.HeldBy == "" || o.Remedy == "" || !strings.Contains(o.Reason, "administrator") {
		t.Errorf("what is held: %+v", o)
	}
	w.cluster.Admin(t, "scontrol", "release", w.jobOf(t, waits))
	await(t, b, waits, spawner.Queued)
	w.cluster.Admin(t, "scancel", w.jobOf(t, canceled))
	if o := await(t, b, canceled, spawner.Exited); !strings.Contains(o.Reason, "canceled in Slurm") || o.Remedy == "" {
		t.Errorf("what was canceled: %+v", o)
	}
	if past, err := w.system().History(t.Context()); err == nil { // the cluster keeps none
		t.Errorf("no history is taken for an empty one: %v", past)
	}
}

// TestRealSilence: a controller that does not answer says nothing of any job; what runs goes on, and what is started
// meanwhile is there once in the end.
func TestRealSilence(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t)
	runs, late := w.launch(t), w.launch(t)
	must(t, b.Start(t.Context(), runs))
	await(t, b, runs.ID, spawner.Up)
	w.cluster.Signal(t, "STOP")
	goOn := sync.OnceFunc(func() { w.cluster.Signal(t, "CONT") })
	t.Cleanup(func() {
		goOn()
		for _, id := range []spawner.ID{runs.ID, late.ID} {
			must(t, errors.Join(b.Stop(context.Background(), id, 0), b.Remove(context.Background(), id)))
		}
	})
	again := w.backend(t) // as if the service had been killed meanwhile
	if o, err := again.Observe(t.Context(), runs.ID); err == nil {
		t.Errorf("of silence it is concluded that %+v", o)
	}
	if err := again.Start(t.Context(), late); err == nil {
		t.Error("it was started")
	}
	goOn()
	await(t, b, runs.ID, spawner.Up)
	must(t, b.Start(t.Context(), late))
	await(t, b, late.ID, spawner.Up)
	jobs, err := w.system().Queue(t.Context())
	if err != nil || len(jobs) != 2 {
		t.Errorf("in the queue: %+v, %v", jobs, err)
	}
}

// TestRealRefusals: what could never start is refused, with the reason and the remedy.
func TestRealRefusals(t *testing.T) {
	w := newWorld(t)
	b := w.backend(t)
	for name, tc := range map[string]struct {
		change func(*spawner.Launch)
		words  string
	}{
		"too many CPUs": {func(l *spawner.Launch) { l.Spec.Resources.CPUs = 1000 }, "no node of the cluster has what it asks for"},
		"too much time": {func(l *spawner.Launch) { l.Spec.TimeLimit = 25 * time.Hour }, "asks for 25h0m0s, and the cluster gives 24h0m0s at most"},
		"no such GPU":   {func(l *spawner.Launch) { l.Spec.GPU.Mode = "mig"; l.Spec.GPU.Profile = "7g.80gb" }, "the cluster has no GPU that is called"},
	} {
		l := w.launch(t)
		tc.change(&l)
		err := b.Judge(t.Context(), l.Workload)
		if e, _ := errors.AsType[*errs.Error](err); e == nil || !strings.Contains(err.Error(), tc.words) || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSubmission: what sbatch is told. No word of it is a user's own.
func TestSubmission(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "slipway")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755))
	cfg := Config{
		Partition: "gpu", Account: "physics", GRES: map[string]string{"whole": "gpu:v100:1"},
		Config: batch.Config{Dir: filepath.Join(dir, "shared"), Instance: "t1", MarkKey: []byte(testKey), Logger: slog.New(slog.DiscardHandler)},
	}.filled()
	must(t, cfg.check())
	must(t, os.MkdirAll(cfg.Dir, 0o755))
	box := cfg.Box("j-1")
	must(t, os.MkdirAll(filepath.Dir(string(box)), 0o755))
	defer syscall.Umask(syscall.Umask(0o077))
	var told []command.Command
	s := newSystem(cfg, func(_ context.Context, c command.Command) ([]byte, error) {
		if c.Name == "scontrol" {
			return []byte("MaxArraySize = 1001\n"), nil
		}
		told = append(told, c)
		return []byte("17\n"), nil
	})
	w := spawner.Workload{ID: "j-1", Kind: spawner.Job, Owner: "x\n--uid=root", Spec: spawner.Spec{
		JobSpec: spawner.JobSpec{TimeLimit: time.Hour}, Resources: spawner.Resources{CPUs: 1.5, Memory: 2 << 30},
	}}
	w.Spec.GPU.Mode = "whole"
	d, err := s.Describe(w, batch.Record{Program: program})
	must(t, err)
	jobs, err := s.Submit(t.Context(), batch.Submission{Login: "alice", GID: 100, Head: d.Head, Entries: []batch.Entry{
		{ID: "j-1", Run: batch.Encode("l-1"), Mark: "m", Sandbox: box, Point: -1},
	}})
	if err != nil || len(jobs) != 1 || jobs[0].Name != "17" {
		t.Fatalf("%+v, %v", jobs, err)
	}
	for _, file := range []string{"", filepath.Base(d.Head[:strings.LastIndex(d.Head, "/")]), "slipway"} {
		at := filepath.Join(cfg.Dir, ".bin", file)
		if file == "slipway" {
			at = d.Head[strings.LastIndex(d.Head, "\n")+1:]
		}
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("users cannot run %s: %v, %v", at, info, err)
		}
	}
	args := strings.Join(told[0].Args, " ")
	for _, want := range []string{
		"--uid=alice", "--gid=100", "--comment=slipway:t1:j-1:l-1:m", "--chdir=" + string(box), "--no-requeue", "--export=NIL",
		"--cpus-per-task=2", "--mem=2208M", "--time=70", "--partition=gpu", "--account=physics", "--gres=gpu:v100:1",
	} {
		if !strings.Contains(args, want) {
			t.Errorf("there is no %s in %s", want, args)
		}
	}
	if strings.Contains(args, "root") || !strings.HasPrefix(told[0].Input, "#!/bin/sh\nexec "+cfg.Dir+"/.bin/") {
		t.Errorf("told %s, %s", args, told[0].Input)
	}
}

// TestTime: a job has what it asks for, and a session its age; both with what their beginning and end take.
func TestTime(t *testing.T) {
	job, session := spawner.Workload{Kind: spawner.Job}, spawner.Workload{Kind: spawner.Lab}
	none := timeOptions(session, 0)
	job.Spec.TimeLimit, session.Spec.Life.MaxAge = time.Hour, 8*time.Hour
	for i, want := range []string{"--signal=B:TERM@120", "--time=70", "--signal=B:TERM@120 --time=495", "--time=65"} {
		if got := strings.Join([][]string{none, timeOptions(job, 0), timeOptions(session, 0), timeOptions(job, 65*time.Minute)}[i], " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLimits: what Slurm says of times, and who asks for more than there is.
func TestLimits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"UNLIMITED": 0, "": 0, "x": 0, "1-00:00:00": 24 * time.Hour, "2-12:30:15": 60*time.Hour + 30*time.Minute + 15*time.Second,
		"08:00:00": 8 * time.Hour, "30:00": 30 * time.Minute, "-1:00": 0,
	} {
		if got := parseTime(text); got != want {
			t.Errorf("%q is %s", text, got)
		}
	}
	const lines = "PartitionName=a Default=NO MaxTime=01:00:00 State=UP\nPartitionName=b Default=YES MaxTime=02:00:00\n"
	for partition, want := range map[string]time.Duration{"": 2 * time.Hour, "a": time.Hour, "c": 0} {
		if got := parseMaxTime(lines, partition); got != want {
			t.Errorf("partition %q gives %s", partition, got)
		}
	}
	session := spawner.Workload{Kind: spawner.Lab}
	session.Spec.Life.MaxAge = 2 * time.Hour
	if err := fitsTime(session, time.Hour); err == nil || fitsTime(session, 0) != nil || fitsTime(session, 2*time.Hour) != nil {
		t.Errorf("a session of 2 h: %v", err)
	}
}

// TestOldPrograms: of the program's earlier versions those stay that a workload runs.
func TestOldPrograms(t *testing.T) {
	s := service(t, nil)
	file := filepath.Join(t.TempDir(), "slipway")
	version := func(text string) string {
		must(t, os.WriteFile(file, []byte(text), 0o755))
		name, err := s.program(file)
		must(t, err)
		return name
	}
	there := func(want ...string) {
		t.Helper()
		var left []string
		for _, name := range want {
			if text, err := os.ReadFile(name); err == nil {
				left = append(left, string(text))
			}
		}
		if dirs, err := os.ReadDir(filepath.Join(s.cfg.Dir, programsDir)); err != nil || len(dirs) != len(want) || len(left) != len(want) {
			t.Errorf("there are %d versions (%v), and %q of %q", len(dirs), err, left, want)
		}
	}
	restart := func() { s = newSystem(s.cfg, nil) }
	must(t, os.Mkdir(filepath.Dir(string(s.cfg.Box("j-1"))), 0o755))
	first := version("1")
	must(t, noteProgram(s.cfg.Box("j-1"), first))
	restart()
	second := version("22")
	there(first, second)
	must(t, noteProgram(s.cfg.Box("j-1"), second)) // a later run of it
	third := version("333")
	there(second, third)
	restart()
	fourth := version("4444")
	there(second, fourth)
	must(t, os.Mkdir(filepath.Dir(string(s.cfg.Box("j-2"))), 0o755)) // of before programs were noted
	restart()
	there(second, fourth, version("55555"))
}

func marker() batch.Marker { return batch.NewMarker("t1", []byte(testKey)) }

// service is the service of these marks, with a directory of its own. It runs its commands by run.
func service(t testing.TB, run command.Runner) *system {
	cfg := Config{Config: batch.Config{Dir: t.TempDir(), Instance: "t1", MarkKey: []byte(testKey), Logger: slog.New(slog.DiscardHandler)}}.filled()
	return newSystem(cfg, run)
}

// TestQueueText: squeue's words are read, a comment that looks like another job's line is none, and what is cut off is
// no answer.
func TestQueueText(t *testing.T) {
	mark := func(login, id string) string {
		return "slipway:t1:" + id + ":l-1:" + marker().Mark(login, id, "l-1")
	}
	lines := []string{
		"5|N/A|alice|RUNNING|None|2000|n1|" + mark("alice", "j-1"),
		"6|N/A|alice|PENDING|Priority|N/A||" + mark("alice", "j-2"),
		"7|N/A|mallory|RUNNING|None|N/A|n2|x\n5|N/A|alice|FAILED|None|N/A|n1|" + mark("alice", "j-1"),
		"8|N/A|mallory|RUNNING|None|N/A|n2|" + mark("alice", "j-1"),
		"9|N/A|alice|COMPLETED|None|1000|n1|" + mark("alice", "j-3"),
		"10|N/A|alice|PENDING|JobHeldAdmin|N/A||" + mark("alice", "j-4"),
	}
	own := service(t, nil).owned
	jobs, err := parseQueue("@"+strings.Join(lines, "\n@")+"\n", "@", own)
	must(t, err)
	var got []string
	for _, j := range jobs {
		got = append(got, fmt.Sprintf("%s %s %s %t %t", j.Name, j.ID, j.Seen.Existence, j.Begun, j.Over))
	}
	want := []string{
		"5 j-1 up true false", "6 j-2 queued false false", "9 j-3 exited true true", "10 j-4 held false false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if at := jobs[0].Seen.Deadline; !at.Equal(time.Unix(2000, 0).Add(-endReserve)) || !jobs[2].Seen.Deadline.IsZero() {
		t.Errorf("the first's time ends at %v, the last's at %v", at, jobs[2].Seen.Deadline)
	}
	for _, text := range []string{"squeue: odd\n", "@5|N/A|alice|RUNNING\n"} {
		if _, err := parseQueue(text, "@", own); err == nil {
			t.Errorf("%q is taken for an answer", text)
		}
	}
	if jobs, err := parseQueue("", "@", own); err != nil || len(jobs) > 0 {
		t.Errorf("of nothing: %v, %v", jobs, err)
	}
}

// TestHistoryText: of what sacct prints only what has ended counts, the latest first.
func TestHistoryText(t *testing.T) {
	row := func(n, state string) string {
		return "slipway:t1:j-" + n + ":l-1:" + marker().Mark("alice", "j-"+n, "l-1") + "@alice@" + state + "@n1@" + n + "\n"
	}
	own := service(t, nil).owned
	past, err := parseHistory("odd\ncomment@bob@FAILED@n1@1\n"+row("2", "RUNNING")+row("3", "CANCELLED by 41234")+row("4", "TIMEOUT"), "@", own)
	if err != nil || len(past) != 2 || past[0].ID != "j-4" || past[0].End.Reason != "time limit reached" || past[1].End.Reason == "" {
		t.Errorf("%+v, %v", past, err)
	}
	if _, err := parseHistory("cut@off", "@", own); err == nil {
		t.Error("half a line is taken for an answer")
	}
}

// TestEveryWord: each state and reason has words, and what holds a job a remedy.
func TestEveryWord(t *testing.T) {
	for name, w := range waits() {
		if w.words == "" || w.held && w.remedy == "" {
			t.Errorf("%s: %+v", name, w)
		}
	}
	if o := observe("PENDING", "a new\x1b[31m one"); o.Existence != spawner.Queued || strings.ContainsRune(o.Detail, 0x1b) {
		t.Errorf("%+v", o)
	}
	for _, state := range []string{"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "odd"} {
		if o := observe(state, ""); o.Existence != spawner.Up {
			t.Errorf("%s: %+v", state, o)
		}
	}
	if o := observe("PREEMPTED", ""); !o.Evicted {
		t.Errorf("%+v", o)
	}
}
