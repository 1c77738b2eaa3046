package worker

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/agent/control"
)

func TestJob(t *testing.T) {
	n := newNode(t, `cat in.txt; echo; echo "$GREETING"; id -u; echo "$HOME $USER $NVIDIA_VISIBLE_DEVICES."; ls /run/slipway/link
		echo o > out.txt; echo i >> in.txt; cat /tmp/x 2>&1; echo t > /tmp/x; echo v > /var/tmp/x; exit 3`)
	n.plan.Env = map[string]string{"GREETING": "it's $HOME"}
	n.plan.Binds = []string{"/no/such/directory"}
	code, e := n.run("in.txt")
	if code != 3 || e.ExitCode != 3 || e.Reason != "" || e.Host == "" || e.Ended.Before(e.Started) || !strings.Contains(e.Tail, "app exited") {
		t.Errorf("code %d, end %+v", code, e)
	}
	want := "sent in.txt\nit's $HOME\n65534\n/home/alice alice void.\napp.json\ncat: can't open '/tmp/x': No such file or directory\n"
	if diff := cmp.Diff(want, n.out(LogFile)); diff != "" {
		t.Error(diff)
	}
	s := n.status()
	if s.State != control.Exited || s.ExitCode != 3 || !cmp.Equal(s.Files, []control.File{{Name: "out.txt", Size: 2}}) || s.LogSize != int64(len(want)) {
		t.Errorf("%+v", s)
	}
	if list, err := filepath.Glob(n.at(OutDir, FilesDir, "*")); len(list) != 1 || err != nil || n.out(FilesDir, "out.txt") != "o\n" {
		t.Errorf("brought back %v, %v", list, err)
	}
}

// TestScratch: where the node has a directory for it, a run writes on another disk than its sandbox's, and all comes
// back. What a killed worker has left there goes.
func TestScratch(t *testing.T) {
	n := newNode(t, `cat in.txt; echo o > out.txt; mkdir -p sealed/in; chmod 0 sealed; echo v > /var/tmp/x`)
	above, err := os.MkdirTemp("/dev/shm", "slipway-worker-test-")
	must(t, err, os.Chmod(above, 0o777|os.ModeSticky))
	t.Cleanup(func() { must(t, os.RemoveAll(above)) })
	n.plan.Scratch = above
	own := filepath.Join(above, scratchName+"65534")
	left := filepath.Join(own, "run-before")
	must(t, os.MkdirAll(filepath.Join(left, "sealed", "in"), 0o700), os.Chown(own, nobody, nobody), os.Chown(left, nobody, nobody))
	for _, dir := range []string{"sealed/in", "sealed"} {
		must(t, os.Chown(filepath.Join(left, dir), nobody, nobody), os.Chmod(filepath.Join(left, dir), 0))
	}
	code, e := n.run("in.txt")
	if code != 0 || n.out(LogFile) != "sent in.txt" || n.out(FilesDir, "out.txt") != "o\n" {
		t.Errorf("code %d, end %+v, log %q", code, e, n.out(LogFile))
	}
	if list, err := os.ReadDir(own); err != nil || len(list) > 0 {
		t.Errorf("on the node there stays %v, %v", list, err)
	}
	for _, name := range []string{runDir, scratchDir, homeDir} {
		if _, err := os.Lstat(n.at(name)); err == nil {
			t.Errorf("the sandbox has %s", name)
		}
	}
}

// What a job leaves may be anything: links lead nowhere, what is too large stays, and all the rest comes.
func TestHostileRemains(t *testing.T) {
	n := newNode(t, `ln -s /etc/passwd link; ln -s ../link/app.json secret; mkfifo pipe; mkdir dir; echo x > dir/x; touch "$(echo -e 'new\nline')" '..x'
		truncate -s 2000000000 large; echo k > kept; chmod 0 kept; echo é > 'naïve name'; truncate -s 600000000 ../app.log; rm -rf ../last; ln -s ../link ../last; exit 1`)
	code, e := n.run()
	var names []string
	list, err := os.ReadDir(n.at(OutDir, FilesDir))
	must(t, err)
	for _, f := range list {
		names = append(names, f.Name())
	}
	if diff := cmp.Diff([]string{"kept", "naïve name"}, names); diff != "" {
		t.Error(diff)
	}
	if code != 1 || !strings.Contains(e.Tail, "large was left behind: it has 2000000000 bytes") {
		t.Errorf("code %d, end %+v", code, e)
	}
	if st, err := os.Stat(n.at(OutDir, LogFile)); err != nil || st.Size() != MaxLog {
		t.Errorf("the log: %v, %v", st.Size(), err)
	}
	if st, err := os.Stat(n.at(OutDir, FilesDir, "kept")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("kept: %v, %v", st.Mode(), err)
	}
	// The agent's own word lies behind a link, so the worker speaks for it.
	got := n.status()
	want := control.Status{Launch: "l1", State: control.Exited, ExitCode: 1, Reason: e.Reason, LogSize: MaxLog, Files: []control.File{{Name: "kept", Size: 2}, {Name: "naïve name", Size: 3}}}
	got.Started, got.Ended = time.Time{}, time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// stubborn is a job that has children everywhere and does not want to end.
const stubborn = `trap "" TERM; setsid sleep 600 & (setsid sh -c 'trap "" TERM; sleep 600 & sleep 600' &); touch up; while :; do sleep 0.1; done`

func TestEnds(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		act  func(*node)
		code int
		want string
	}{
		"asked":         {`trap "echo bye; exit 5" TERM; touch up; while :; do sleep 0.1; done`, func(n *node) { must(n.t, n.cmd.Process.Signal(syscall.SIGTERM)) }, 5, "asked to end by the batch system"},
		"asked in vain": {stubborn, func(n *node) { must(n.t, n.cmd.Process.Signal(syscall.SIGTERM)) }, 137, "asked to end by the batch system"},
		"worker killed": {stubborn, func(n *node) { must(n.t, n.cmd.Process.Kill()) }, 137, "was killed, and could not see how it ended"},
		"keeper killed": {stubborn, func(n *node) { n.kill(KeepCommand) }, 137, "killed on the worker node by signal 9"},
		"agent killed":  {`touch up; kill -9 $PPID; sleep 600`, func(*node) {}, 137, "killed on the worker node by signal 9"},
		"time over":     {stubborn, func(*node) {}, 137, "time limit of 3s reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, test.line)
			if name == "time over" {
				n.plan.TimeLimit = 3 * time.Second
			}
			n.send()
			n.start()
			until(t, "the job is up", func() bool {
				_, err := os.Stat(n.at("run/work/up"))
				_, err2 := os.Stat(n.at(OutDir, FilesDir, "up"))
				return err == nil || err2 == nil
			})
			test.act(n)
			_, e := n.wait()
			if name != "worker killed" && n.status().State != control.Exited {
				t.Errorf("%+v", n.status())
			}
			if e.ExitCode != test.code || !strings.Contains(e.Reason, test.want) {
				t.Errorf("%+v, want code %d, %q", e, test.code, test.want)
			}
		})
	}
}

// kill kills the process of the run with that argument.
func (n *node) kill(argument string) {
	n.t.Helper()
	for _, p := range n.processes() {
		dir, line, _ := strings.Cut(p, " ")
		if strings.Contains(line, argument) {
			pid := 0
			for _, c := range filepath.Base(dir) {
				pid = 10*pid + int(c-'0')
			}
			must(n.t, syscall.Kill(pid, syscall.SIGKILL))
			return
		}
	}
	n.t.Fatalf("no process %s", argument)
}

// TestSession: what a session changed comes back, whatever still ran in it.
func TestSession(t *testing.T) {
	n := newNode(t, `echo n > /opt/new; rm -r /opt/old; echo h > $HOME/h; (setsid sh -c 'while :; do echo x >> /opt/grows; done' &); while [ ! -s /opt/grows ]; do sleep 0.1; done`)
	n.plan.Session = true
	code, e := n.run()
	if code != 0 || e.Reason != "" {
		t.Errorf("code %d, end %+v", code, e)
	}
	got := n.out(PackFile)
	if e.PackSize != int64(len(got)) || len(got) == 0 {
		t.Errorf("%d bytes came back, and it tells of %d", len(got), e.PackSize)
	}
	for _, name := range []string{"new", "grows", "old"} {
		if !strings.Contains(got, name) {
			t.Errorf("%s is not in what came back (%d bytes)", name, len(got))
		}
	}
	if n.status().State != control.Exited {
		t.Errorf("%+v", n.status())
	}
}

func TestHome(t *testing.T) {
	for owner, want := range map[int]string{nobody: "hers", 1: "none"} {
		n := newNode(t, `cat "$HOME/mine" 2>/dev/null || echo none`)
		n.plan.HomeDir = n.at("..", filepath.Base(n.box)+"home")
		must(t, os.Mkdir(n.plan.HomeDir, 0o755), os.WriteFile(filepath.Join(n.plan.HomeDir, "mine"), []byte("hers\n"), 0o644), os.Chown(n.plan.HomeDir, owner, owner))
		if _, e := n.run(); e.ExitCode != 0 || n.out(LogFile) != want+"\n" {
			t.Errorf("home of uid %d: %+v, %s", owner, e, n.out(LogFile))
		}
	}
}

// TestGPUsInside: a run sees what its batch system says of GPUs, and the daemon by which several share one.
func TestGPUsInside(t *testing.T) {
	n := newNode(t, `echo "$CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
		cat "$CUDA_MPS_PIPE_DIRECTORY/control"; cat /dev/shm/slipway-test-worker; echo t > /tmp/x; echo v > /var/tmp/x; ls -A "$HOME"; cat /tmp/x; env | grep -c _CONDOR`)
	pipe := n.at("../" + filepath.Base(n.box) + "-mps")
	must(t, os.Mkdir(pipe, 0o755), os.WriteFile(filepath.Join(pipe, "control"), []byte("daemon\n"), 0o644))
	const memory = "/dev/shm/slipway-test-worker"
	must(t, os.WriteFile(memory, []byte("shared\n"), 0o644))
	t.Cleanup(func() { must(t, os.Remove(memory)) })
	n.plan.GPU = true
	n.env = []string{"CUDA_VISIBLE_DEVICES=MIG-b1", "NVIDIA_VISIBLE_DEVICES=GPU-MIG-b1", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4G", "CUDA_MPS_PIPE_DIRECTORY=" + pipe, "_CONDOR_SLOT=1"}
	n.run()
	if got, want := n.out(LogFile), "MIG-b1 MIG-b1 0=4G\ndaemon\nshared\nt\n0\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
