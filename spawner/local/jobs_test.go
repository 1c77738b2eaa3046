package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner"
	"slipway/spawner/local"
	"slipway/spawner/spawnertest"
)

// script puts a shell script in the agent's place.
func (w *world) script(t testing.TB, text string) {
	t.Helper()
	name := filepath.Join(w.agentDir, "slipway")
	must(t, os.Remove(name))
	must(t, os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o755))
}

// job is one started job.
type job struct {
	*local.Backend
	spawner.Launch
	world *world
}

func start(t testing.TB, w *world, l spawner.Launch) job {
	t.Helper()
	j := job{w.backend(t), l, w}
	t.Cleanup(func() { j.clear(t) })
	must(t, j.Start(t.Context(), l))
	return j
}

func (j job) clear(t testing.TB) {
	t.Helper()
	must(t, j.Stop(context.WithoutCancel(t.Context()), j.ID, 0))
	must(t, j.Remove(context.WithoutCancel(t.Context()), j.ID))
}

// await waits until ok says so of what can be seen of the job.
func (j job) await(t testing.TB, ok func(spawner.Observation) bool) spawner.Observation {
	t.Helper()
	var o spawner.Observation
	if !testenv.Within(testenv.Hang, func() bool {
		var err error
		o, err = j.Observe(t.Context(), j.ID)
		must(t, err)
		return ok(o)
	}) {
		t.Fatalf("waited in vain: %+v\n%s", o, j.output())
	}
	return o
}

// output is what the job has said so far.
func (j job) output() string {
	out, _ := os.ReadFile(filepath.Join(j.world.cfg.Dir, string(j.ID), "output")) // there is none before it starts
	return string(out)
}

func (j job) exited(t testing.TB) spawner.Observation {
	t.Helper()
	return j.await(t, func(o spawner.Observation) bool { return o.Existence == spawner.Exited })
}

// file waits for a file of the job's /var/tmp. It fails when the job has ended without it.
func (j job) file(t testing.TB, name string) string {
	t.Helper()
	o := j.await(t, func(o spawner.Observation) bool { return j.has(name) || o.Existence == spawner.Exited })
	text, err := os.ReadFile(j.path(name))
	if err != nil {
		t.Fatalf("it has ended without %s: %+v\n%s", name, o, j.output())
	}
	return string(text)
}

// has says whether there is a file of the job's /var/tmp.
func (j job) has(name string) bool {
	_, err := os.Stat(j.path(name))
	return err == nil
}

func (j job) path(name string) string {
	return filepath.Join(j.world.cfg.Dir, string(j.ID), "scratch/var_tmp", filepath.Base(name))
}

// alive counts the host's processes of the job's user, less those that only wait to be buried.
func alive(t testing.TB) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	must(t, err)
	n := 0
	for _, file := range files {
		status, _ := os.ReadFile(file)
		if strings.Contains(string(status), "\nUid:\t54321\t") && !strings.Contains(string(status), "\nState:\tZ") {
			n++
		}
	}
	return n
}

func grep(text, word string) []string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

func TestEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		change func(*spawner.Launch)
		code   int
		reason string
		remedy string
	}{
		"zero":         {script: "exit 0"},
		"code is kept": {script: "exit 3", code: 3},
		"signal":       {script: "kill -SEGV $$", code: 139},
		"time limit": {
			script: "trap '' TERM\necho deaf\nwhile :; do sleep 1; done", code: 137, reason: "time limit of 2s reached", remedy: "--time",
			change: func(l *spawner.Launch) { l.Spec.TimeLimit = 2 * time.Second },
		},
		"no image":  {code: 255, reason: "its container could not be made: ", change: func(l *spawner.Launch) { l.SIF = "/bin/busybox" }},
		"no agent":  {code: 255, reason: "its container could not be made: ", change: func(l *spawner.Launch) { l.AgentDir = l.Account.HomeDir }},
		"much said": {script: "i=0; while [ $i -lt 20000 ]; do echo much much much much; i=$((i+1)); done; exit 4", code: 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.script(t, tc.script)
			l := w.launch(t)
			if tc.change != nil {
				tc.change(&l)
			}
			j := start(t, w, l)
			o := j.exited(t)
			if name == "time limit" && o.ExitCode == 143 && !strings.Contains(j.output(), "deaf") {
				tc.code = 143 // the machine is so busy that the limit came before the script could shut its ears
			}
			if o.ExitCode != tc.code || !strings.HasPrefix(o.Reason, tc.reason) || !strings.Contains(o.Remedy, tc.remedy) {
				t.Errorf("Observe = %+v, want code %d, reason %q, remedy %q", o, tc.code, tc.reason, tc.remedy)
			}
			if n := alive(t); n > 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

func TestOutOfMemory(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t)
	l.Spec.Resources.Memory = 128 << 20
	l.Spec.Env[spawnertest.AgentEnv] = spawnertest.Hog
	o := start(t, w, l).exited(t)
	if !strings.HasPrefix(o.Reason, "out of memory (limit 128 MiB, peak ") || !strings.Contains(o.Remedy, "--mem") || o.ExitCode == 0 {
		t.Errorf("Observe = %+v", o)
	}
}

// TestOutOfMemoryOfThePayload is the case in which the agent lives on.
func TestOutOfMemoryOfThePayload(t *testing.T) {
	w := newWorld(t)
	w.script(t, "tail /dev/zero\nexec sleep 60\n")
	l := w.launch(t)
	l.Spec.Resources.Memory = 128 << 20
	o := start(t, w, l).await(t, func(o spawner.Observation) bool { return o.Reason != "" })
	if o.Existence != spawner.Up || !strings.HasPrefix(o.Reason, "out of memory") {
		t.Errorf("Observe = %+v", o)
	}
}

// TestForkBomb: every child of the agent does as the agent does. They may take the last thread before Apptainer's own
// program has all of its: then the job ends by itself.
func TestForkBomb(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t)
	l.Spec.Resources.Pids = 80 // threads count
	l.Spec.Env[spawnertest.AgentEnv] = spawnertest.ForkMany + "1000"
	j := start(t, w, l)
	ended := j.await(t, func(o spawner.Observation) bool { return o.Existence == spawner.Exited || j.has(spawnertest.ForksFile) })
	if n := alive(t); n < 5 && ended.Existence != spawner.Exited || n > 80 {
		t.Errorf("%d processes in a limit of 80", n)
	}
	must(t, j.Stop(t.Context(), j.ID, 200*time.Millisecond))
	if n := alive(t); n > 0 {
		t.Errorf("%d processes are left", n)
	}
	if o := j.exited(t); ended.Existence == spawner.Exited && !strings.Contains(o.Reason, "limit of 80 processes and threads") {
		t.Errorf("Observe = %+v, want the limit that ended it", o)
	}
}

func TestStopLetsTheAgentEnd(t *testing.T) {
	w := newWorld(t)
	w.script(t, "trap 'exit 9' TERM\ntouch /var/tmp/up\nwhile :; do sleep 0.1; done\n")
	j := start(t, w, w.launch(t))
	j.file(t, "up")
	must(t, j.Stop(t.Context(), j.ID, 10*time.Second))
	if o := j.exited(t); o.ExitCode != 9 {
		t.Errorf("Observe = %+v, want the agent's own exit code", o)
	}
}

// TestWhatTheJobSees looks from inside.
func TestWhatTheJobSees(t *testing.T) {
	w := newWorld(t)
	l := w.launch(t)
	odd := "a b,c \"d\" 'e' $(touch /var/tmp/evil) `x` \\n $HOME\nline = 2\n"
	l.Spec.Env["ODD"] = odd
	l.Spec.Env[spawnertest.AgentEnv] = spawnertest.Report
	must(t, os.MkdirAll(filepath.Join(w.root, "homes", "mallory"), 0o755))
	must(t, os.WriteFile(filepath.Join(l.Account.HomeDir, "mine"), nil, 0o644))
	j := start(t, w, l)
	report := j.file(t, spawnertest.ReportFile)
	for _, want := range []string{
		"Uid:\t54321\t54321\t54321\t54321\n", "Gid:\t54322\t54322\t54322\t54322\n", "Groups:\t \n", "NoNewPrivs:\t1\n", "Whoami: wanda\n",
		"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n",
		strconv.Quote("ODD=" + odd), `"HOME=/home/wanda"`, `"SLIPWAY_ID=` + string(l.ID) + `"`,
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the job's report lacks %q:\n%s", want, report)
		}
	}
}

func TestWhatTheJobReaches(t *testing.T) {
	w := newWorld(t)
	w.script(t, `cd /var/tmp
ls -a /home > homes; ls $HOME > home
touch $HOME/made; touch /run/slipway/made
touch /run/slipway/bin/made; touch /run/slipway/link/made
busybox df -k /tmp | busybox tail -1 | busybox awk '{print $2}' > size
ls / /tmp /root > all 2>/dev/null
command -v slipway > path
exec busybox mv -T home ready
`)
	l := w.launch(t)
	must(t, os.MkdirAll(filepath.Join(w.root, "homes", "mallory"), 0o755))
	must(t, os.WriteFile(filepath.Join(l.Account.HomeDir, "mine"), nil, 0o644))
	j := start(t, w, l)
	j.exited(t)
	if got := j.file(t, "homes"); got != ".\n..\nwanda\n" {
		t.Errorf("/home holds %q", got)
	}
	if got := j.file(t, "ready"); got != "mine\n" {
		t.Errorf("her home holds %q", got)
	}
	if kb, err := strconv.Atoi(strings.TrimSpace(j.file(t, "size"))); err != nil || kb <= 64<<10 {
		t.Errorf("/tmp has %d kB, %v", kb, err)
	}
	if got := j.file(t, "path"); got != "/run/slipway/bin/slipway\n" {
		t.Errorf("slipway is %q", got)
	}
	for name, want := range map[string]bool{
		filepath.Join(l.Account.HomeDir, "made"): true, filepath.Join(l.Dir, "run/made"): true,
		filepath.Join(l.Dir, "link/made"): false, filepath.Join(w.agentDir, "made"): false,
	} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}

// TestKilledShim: what the shim kept is ended, and said to have ended unseen.
func TestKilledShim(t *testing.T) {
	w := newWorld(t)
	j := start(t, w, w.launch(t))
	pid, err := os.ReadFile(filepath.Join(w.cfg.Dir, string(j.ID), "pid"))
	must(t, err)
	n, err := strconv.Atoi(string(pid))
	must(t, err)
	must(t, syscall.Kill(n, syscall.SIGKILL))
	o := j.exited(t)
	if o.Reason == "" || o.Remedy == "" || o.ExitCode == 0 {
		t.Errorf("Observe = %+v, want a reason", o)
	}
	if n := alive(t); n > 0 {
		t.Errorf("%d processes are left", n)
	}
	if err := j.Start(t.Context(), j.Launch); err != nil {
		t.Errorf("Start again = %v", err)
	}
	j.exited(t)
}

// TestRunsOnce: a job that has ended does not run again when its start is asked for again, and does under a new launch.
func TestRunsOnce(t *testing.T) {
	w := newWorld(t)
	w.script(t, "echo run >> /var/tmp/runs; exit 5")
	j := start(t, w, w.launch(t))
	j.exited(t)
	must(t, j.Start(t.Context(), j.Launch))
	if o := j.exited(t); o.ExitCode != 5 || j.file(t, "runs") != "run\n" {
		t.Errorf("Observe = %+v, runs %q", o, j.file(t, "runs"))
	}
	again := j.Launch
	again.Workload.Launch = "l-2"
	must(t, j.Start(t.Context(), again))
	j.exited(t)
	if got := j.file(t, "runs"); got != "run\nrun\n" {
		t.Errorf("runs %q", got)
	}
}

// TestNamesOfTheHost: a job finds the hosts that this host finds, whatever the image says of names.
func TestNamesOfTheHost(t *testing.T) {
	w := newWorld(t)
	w.script(t, `cat /etc/hosts > /var/tmp/hosts; cat /etc/resolv.conf > /var/tmp/resolver; touch /var/tmp/done`)
	j := start(t, w, w.launch(t))
	j.file(t, "done")
	for name, path := range map[string]string{"hosts": "/etc/hosts", "resolver": "/etc/resolv.conf"} {
		want, err := os.ReadFile(path)
		must(t, err)
		if got := j.file(t, name); got != string(want) {
			t.Errorf("%s in the job:\n%s\nwant\n%s", path, got, want)
		}
	}
}

// TestCredentialsOfAJobLieInMemory: its disk has none of what is written where they come, and nobody else may look
// there.
func TestCredentialsOfAJobLieInMemory(t *testing.T) {
	w := newWorld(t)
	w.script(t, `cd /run/slipway
echo secret >credentials/.part && mv credentials/.part credentials/token
stat -c %a:%u credentials >mode
cat credentials/token >read && exec sleep 1000
`)
	j := start(t, w, w.launch(t))
	run := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(j.Dir, "run", name))
		return strings.TrimSpace(string(b))
	}
	j.await(t, func(spawner.Observation) bool { return run("read") != "" })
	if run("read") != "secret" || !strings.HasPrefix(run("mode"), "700:") {
		t.Errorf("the job reads %q in a directory %s", run("read"), run("mode"))
	}
	if left, err := os.ReadDir(filepath.Join(j.Dir, "run", "credentials")); err != nil || len(left) != 0 {
		t.Errorf("the disk has %v (%v)", left, err)
	}
	must(t, j.Stop(t.Context(), j.ID, 0))
}
