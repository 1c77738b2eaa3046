package mounts

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"slipway/internal/testenv"
	"slipway/internal/testenv/autofs"
)

// inside is a process with mounts of its own, as a container has them: what dir shows on this host is bound at target.
type inside struct {
	t      *testing.T
	pid    int
	target string
}

func bound(t *testing.T, dir string) inside {
	t.Helper()
	target := filepath.Join(t.TempDir(), "cvmfs")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", `mount --rbind "$0" "$1" && mount --make-rslave "$1" && echo up && exec sleep 1000`, dir, target)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if b := make([]byte, 2); func() bool { _, err := out.Read(b); return err != nil || string(b) != "up" }() {
		t.Fatal("the process has no mounts")
	}
	return inside{t, cmd.Process.Pid, target}
}

// read reads a file there, as the process sees it; "" when it cannot.
func (i inside) read(name string) string {
	out, _ := exec.Command("nsenter", "--mount", "--target", strconv.Itoa(i.pid), "timeout", "5", "cat", filepath.Join(i.target, name)).Output()
	return strings.TrimSpace(string(out))
}

// tell shows what a failure can be explained by: what the process has mounted, what this host has at dir, and what
// waits.
func (i inside) tell(dir string) {
	i.t.Helper()
	pid := strconv.Itoa(i.pid)
	for _, look := range [][]string{
		{"grep", "-w", i.target, "/proc/" + pid + "/mountinfo"},
		{"grep", "-w", dir, "/proc/self/mountinfo"},
		{"nsenter", "--mount", "--target", pid, "timeout", "5", "ls", "-lR", i.target},
		{"timeout", "5", "ls", "-la", dir},
		{"ps", "-e", "-o", "pid,ppid,stat,wchan:30,args"},
	} {
		out, err := exec.Command(look[0], look[1:]...).CombinedOutput()
		i.t.Logf("%s: %v\n%s", strings.Join(look, " "), err, out)
	}
}

// mounted returns what the process has mounted at the target. What others mount on this host meanwhile reaches the
// process too.
func (i inside) mounted() (list []Mount) {
	i.t.Helper()
	info, err := os.ReadFile("/proc/" + strconv.Itoa(i.pid) + "/mountinfo")
	if err != nil {
		i.t.Fatal(err)
	}
	for m := range Mounts(string(info)) {
		if within(m.Point, i.target) {
			list = append(list, m)
		}
	}
	return list
}

const hello = "hello from " + autofs.Repository

// TestAutofsIsStartedAnew: those that have bound the old one's directory have a dead one, until the Keeper gives them
// the new one.
func TestAutofsIsStartedAnew(t *testing.T) {
	a := autofs.Start(t)
	i := bound(t, a.Dir)
	if got := i.read(autofs.Repository + "/hello.txt"); got != hello {
		t.Fatalf("before anything has happened it reads %q", got)
	}
	a.AwaitExpiry(autofs.Repository)
	if got := i.read(autofs.Repository + "/hello.txt"); got != hello {
		t.Fatalf("what was unmounted for want of use is not mounted again: %q", got)
	}
	a.Down()
	a.Up()
	if got := i.read(autofs.Repository + "/hello.txt"); got == hello {
		t.Log("this kernel keeps what was bound alive")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	k := NewKeeper(KeeperConfig{
		Source: a.Dir, Target: i.target, Program: []string{self, "renew"}, Deadline: time.Minute, Every: 20 * time.Millisecond,
		Processes: func(context.Context) ([]int, error) { return []int{i.pid, 1 << 22}, nil },
		Logger:    slog.New(slog.NewTextHandler(&said, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() {
		if t.Failed() {
			i.tell(a.Dir)
		}
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("the keeper: %s", &said)
		}
	})
	await(t, "it reads what is mounted anew", func() bool { return i.read(autofs.Repository+"/hello.txt") == hello })
	a.AwaitExpiry(autofs.Repository)
	if got := i.read(autofs.Repository + "/hello.txt"); got != hello {
		t.Errorf("the new one does not mount on demand: %q", got)
	}
	a.Down()
	a.Up()
	await(t, "it reads what is mounted anew again", func() bool { return i.read(autofs.Repository+"/hello.txt") == hello })
	a.Kill()
	a.Up()
	await(t, "it reads after automount was killed", func() bool { return i.read(autofs.Repository+"/hello.txt") == hello })
	info, err := os.ReadFile("/proc/" + strconv.Itoa(i.pid) + "/mountinfo")
	if n := strings.Count(string(info), " "+i.target+" "); err != nil || n > 2 { // the one below is what is there without autofs
		t.Errorf("%d mounts lie on one another (%v)", n, err)
	}
}

func TestMountsOfThisHostAreNotTouched(t *testing.T) {
	testenv.Need(t, testenv.Root)
	if err := Renew(os.Getpid(), "/", t.TempDir(), "0:1"); err == nil || !strings.Contains(err.Error(), "the mounts of this host") {
		t.Error(err)
	}
}

// TestMountedMeanwhile: what is mounted on this host while the copy is not in its place yet is not lacking.
func TestMountedMeanwhile(t *testing.T) {
	testenv.Need(t, testenv.Root)
	i, source := bound(t, "/proc"), t.TempDir()
	stale := i.mounted()[0].Device
	late := filepath.Join(source, "late")
	err := errors.Join(
		unix.Mount("test", source, "tmpfs", 0, ""), unix.Mount("", source, "", unix.MS_SHARED, ""), os.Mkdir(late, 0o755),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(late, 0); _ = unix.Unmount(source, 0) })
	copies := 0
	err = renew(i.pid, source, i.target, stale, func() {
		if copies++; copies == 1 {
			if err := unix.Mount("late", late, "tmpfs", 0, ""); err != nil {
				t.Error(err)
			}
		}
	})
	list := i.mounted()
	if err != nil || copies > 2 || len(list) != 2 || list[0].Point != i.target || list[1].Point != i.target+"/late" {
		t.Errorf("%d copies, %v, and the process has %+v", copies, err, list)
	}
}

// TestAnotherDevice: what is there by now is not taken away.
func TestAnotherDevice(t *testing.T) {
	testenv.Need(t, testenv.Root)
	i := bound(t, "/proc")
	before := i.mounted()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, "renew", strconv.Itoa(i.pid), "/sys", i.target, "0:99999").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "something else there") {
		t.Errorf("%s, %v", out, err)
	}
	if diff := cmp.Diff(before, i.mounted()); diff != "" {
		t.Error(diff)
	}
}

// TestMountsOfAUserAreNotEntered: a program in a container may make a user namespace with any mounts in it.
func TestMountsOfAUserAreNotEntered(t *testing.T) {
	testenv.Need(t, testenv.Root)
	var argv []string
	for range deepest + 1 {
		argv = append(argv, "unshare", "--user", "--map-root-user", "--mount")
	}
	cmd := exec.Command(argv[0], append(argv[1:], "sh", "-c", "echo up; exec sleep 1000")...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if n, _ := out.Read(make([]byte, 2)); n != 2 {
		t.Skip("this kernel lets nobody make user namespaces")
	}
	if err := Renew(cmd.Process.Pid, "/", "/proc", "0:1"); err == nil || !strings.Contains(err.Error(), "made by what runs in a container") {
		t.Error(err)
	}
}

// TestAllOfACopyIsReadOnly: also what is mounted below.
func TestAllOfACopyIsReadOnly(t *testing.T) {
	testenv.Need(t, testenv.Root)
	if os.Getenv("SLIPWAY_TEST_COPY") == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("unshare", "--mount", "--propagation", "private", self, "-test.run", "^TestAllOfACopyIsReadOnly$", "-test.v")
		cmd.Env = append(os.Environ(), "SLIPWAY_TEST_COPY=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Join(dir, "below")} {
		if err := errors.Join(os.MkdirAll(d, 0o755), unix.Mount("test", d, "tmpfs", 0, "")); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = unix.Unmount(filepath.Join(dir, "below"), 0); _ = unix.Unmount(dir, 0) }()
	tree, err := clone(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tree)
	for _, name := range []string{"x", "below/x"} {
		if fd, err := unix.Openat(tree, name, unix.O_CREAT|unix.O_WRONLY, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("%s is opened: %d, %v", name, fd, err)
		}
	}
}

// TestOneFailureHoldsUpNobody: it is told once, tried again ever more rarely, and the others have their turn at once.
func TestOneFailureHoldsUpNobody(t *testing.T) {
	testenv.Need(t, testenv.Root)
	one, other := bound(t, "/proc"), bound(t, "/proc")
	began := filepath.Join(t.TempDir(), "began")
	var said strings.Builder
	k := NewKeeper(KeeperConfig{
		Source: "/sys", Target: one.target, Program: []string{"sh", "-c", `echo x >>"$0"; echo no`, began}, Deadline: time.Minute, Every: time.Minute,
		Processes: func(context.Context) ([]int, error) { return []int{one.pid, other.pid}, nil }, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	for range 3 {
		if err := k.Renew(t.Context(), "0:99999"); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ := os.ReadFile(began); string(b) != "x\n" || strings.Count(said.String(), "WARN") != 1 || !k.owes() {
		t.Errorf("tried %q, said %s", b, said.String())
	}
	k.failed[one.pid] = failure{}
	stuck := exec.Command("sleep", "1000") // stands for one that the kernel holds
	if err := stuck.Start(); err != nil {
		t.Fatal(err)
	}
	k.failed[one.pid] = failure{stuck: &child{process: stuck.Process}}
	k.see(t.Context(), one.pid, "0:99999")
	if b, _ := os.ReadFile(began); string(b) != "x\n" {
		t.Error("a second child is begun beside one that is stuck")
	}
	if err := stuck.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "it is tried again", func() bool {
		k.see(t.Context(), one.pid, "0:99999")
		b, _ := os.ReadFile(began)
		return string(b) == "x\nx\n"
	})
	k.cfg.Processes = func(context.Context) ([]int, error) { return nil, nil }
	if err := k.Renew(t.Context(), "0:99999"); err != nil || k.owes() {
		t.Errorf("one that is gone is remembered (%v)", err)
	}
}

func TestStale(t *testing.T) {
	device, err := Device("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]bool{"/proc": false, "/sys": true, "/nothing/is/mounted": false} {
		if got, err := Stale(os.Getpid(), target, device); (got != "") != want || err != nil {
			t.Errorf("Stale(%s) = %v, %v", target, got, err)
		}
	}
	if stale, err := Stale(1<<22, "/proc", device); stale != "" || err != nil {
		t.Error("a process that is gone has something stale", err)
	}
}
