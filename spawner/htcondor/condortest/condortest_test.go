package condortest

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// shared has workers that tests cut off and kill, and one where the kernel's overlay cannot be stacked.
var shared = Shared{Options: Options{Workers: []Worker{{Name: "far"}, {Name: "doomed"}, {Name: "stacked", Stacked: true}}}}

// TestMain ends the pools that the tests share. It is also the program that TestKilled kills.
func TestMain(m *testing.M) {
	if os.Getenv(victim) != "" {
		os.Exit(beVictim())
	}
	flag.Parse()
	// They wait for the pools, and not for processors.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := errors.Join(shared.Close(), site.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// victim, in the environment, makes this test program one that has a pool and never ends.
const victim = "SLIPWAY_CONDORTEST_VICTIM"

func beVictim() int {
	p, err := New(Options{CPUs: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(p.mark)
	select {}
}

// TestKill comes first, for it takes the longest: a job whose machine is gone is idle again when its lease is over, and
// another start is the pool's to give.
func TestKill(t *testing.T) {
	t.Parallel()
	p := shared.Pool(t)
	j := newJob(t, p, "alice", "exec sleep 600")
	j.submit(t, 1, on("doomed"), "job_lease_duration = 10")
	j.runs(t, 1)
	p.Kill(t, "doomed")
	Await(t, "the job is idle again", func() bool { return j.attribute(t, "JobStatus") == "1" })
	p.Revive(t, "doomed")
	Await(t, "the job runs again", func() bool { return j.count(t, "JobStatus == 2 && NumJobStarts == 2") == 1 })
}

// TestKilled: nothing is left of the pool of a test program that is killed with all its children.
func TestKilled(t *testing.T) {
	testenv.Need(t, testenv.HTCondor)
	t.Parallel()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), victim+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // it was killed
	mark := strings.TrimSpace(line)
	if mark == "" {
		t.Fatalf("the pool did not start: %v", readErr)
	}
	Await(t, "nothing is left", func() bool {
		containers, err := docker("ps", "--all", "--quiet", "--filter", "label="+label+"="+mark)
		networks, netErr := docker("network", "ls", "--quiet", "--filter", "label="+label+"="+mark)
		files, globErr := filepath.Glob("/var/tmp/*" + mark)
		return errors.Join(err, netErr, globErr) == nil && containers+networks == "" && len(files) == 0
	})
}

// TestJob submits a job as a user, who has nothing but a token, and has it run in an image.
func TestJob(t *testing.T) {
	t.Parallel()
	p := shared.Pool(t)
	j := newJob(t, p, "alice", "apptainer exec --userns --contain --pid --ipc --cleanenv image.sif sh -c "+
		`'echo "uid $(id -u) on $(hostname)"; test -d /.singularity.d && echo inside'`+"\necho answered > answer")
	j.submit(t, 1, "transfer_output_files = answer", on(Main))
	j.ends(t)
	if got, want := j.read(t, "out"), "uid 41234 on pool.slipway.test\ninside\n"; got != want {
		t.Errorf("the job wrote %q, want %q, and %q as errors", got, want, j.read(t, "err"))
	}
	if got := j.read(t, "answer"); got != "answered\n" {
		t.Errorf("the job's file is %q", got)
	}
}

// TestOverlay has changes go to a directory of the job's. Over an image in a file that is done by FUSE everywhere; over
// one in a directory the kernel does it where it can.
func TestOverlay(t *testing.T) {
	t.Parallel()
	p := shared.Pool(t)
	for _, c := range []struct{ machine, image, want string }{
		{Main, "image.sif", "fuse"}, {"stacked", "image.sif", "fuse"}, {Main, "tree", "overlay"}, {"stacked", "tree", "fuse"},
	} {
		t.Run(c.machine+" "+c.image, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, p, "alice", "mkdir upper && apptainer build --sandbox tree image.sif && apptainer exec --userns --contain --overlay upper "+c.image+
				" sh -c 'grep \" / \" /proc/mounts; echo kept > /etc/added' && cat upper/upper/etc/added; chmod -R u+w upper tree")
			j.submit(t, 1, on(c.machine))
			j.ends(t)
			root, kept, _ := strings.Cut(strings.TrimSpace(j.read(t, "out")), "\n")
			if kind := strings.Fields(root + " / none")[2]; !strings.HasPrefix(kind, c.want) || kept != "kept" {
				t.Errorf("the root is %q, what is kept %q; errors: %s", root, kept, j.read(t, "err"))
			}
		})
	}
}

// TestOutwards: a worker is reached by nobody, and reaches this host at the pool's address and no other.
func TestOutwards(t *testing.T) {
	t.Parallel()
	p := shared.Pool(t)
	l, err := net.Listen("tcp", net.JoinHostPort(p.Address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	j := newJob(t, p, "alice", "busybox nc -l -p 7777 & (echo hello; exec sleep 1) | busybox nc "+HostName+" "+port+
		"\nbusybox nc -w 2 192.0.2.1 80 </dev/null && echo out; kill %1")
	j.submit(t, 1, on("far"))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(conn).ReadString('\n'); err != nil || said != "hello\n" {
		t.Errorf("the worker said %q: %v", said, err)
	}
	if c, err := net.DialTimeout("tcp", net.JoinHostPort(p.machines["far"].address, "7777"), time.Second); err == nil {
		c.Close()
		t.Error("the worker lets itself be called")
	}
	conn.Close()
	j.ends(t)
	if out := j.read(t, "out"); out != "" {
		t.Errorf("the worker reaches other networks: %q", out)
	}
}

// TestCutAndHeal: a job goes on while nobody can see its machine, and its end is told when they can.
func TestCutAndHeal(t *testing.T) {
	t.Parallel()
	p := shared.Pool(t)
	j := newJob(t, p, "alice", "for i in $(seq 100); do sleep .1; [ -e go ] && exit 0; done; echo nobody came >&2")
	j.submit(t, 1, on("far"))
	j.runs(t, 1)
	p.Cut(t, "far")
	p.machines["far"].must(t, "find", "/var/lib/condor/execute", "-name", "image.sif", "-execdir", "touch", "go", ";")
	p.Heal(t, "far")
	j.ends(t)
	if j.read(t, "err") != "" || j.attribute(t, "NumJobStarts") != "1" {
		t.Errorf("the job said %q and was started %s times", j.read(t, "err"), j.attribute(t, "NumJobStarts"))
	}
}

// TestConfigure changes one machine, and only until the end of the test.
func TestConfigure(t *testing.T) {
	p := shared.Pool(t)
	t.Run("changed", func(t *testing.T) {
		p.Configure(t, Main, "50-test.conf", "SLIPWAY_TEST = 3\n")
		if got := p.Admin(t, "condor_config_val", "SLIPWAY_TEST"); got != "3\n" {
			t.Errorf("the value is %q", got)
		}
	})
	if out, err := p.machines[Main].run("condor_config_val", "SLIPWAY_TEST"); err == nil {
		t.Errorf("the value stays: %q", out)
	}
}

// TestCommands runs one as any program would find it on PATH.
func TestCommands(t *testing.T) {
	t.Parallel()
	p := shared.Pool(t)
	dir := p.TempDir(t)
	write(t, filepath.Join(dir, "here.sub"), "executable = /bin/true\n+Has = \"$ENV(_CONDOR_WORD:no) $ENV(SECRET:no)\"\nqueue\n")
	c := exec.Command(filepath.Join(p.Bin, "condor_submit"), "-dry-run", "-", "here.sub")
	c.Dir, c.Env = dir, append(os.Environ(), "_CONDOR_WORD=yes", "SECRET=yes")
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `Has="yes no"`) || !strings.Contains(string(out), `Iwd="`+dir+`"`) {
		t.Errorf("with HTCondor's variables alone, in %s: %v: %s", dir, err, out)
	}
	c = exec.Command(filepath.Join(p.Bin, "condor_submit"), "none.sub")
	c.Dir = dir
	var exit *exec.ExitError
	if err := c.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("a command that fails: %v", err)
	}
}
