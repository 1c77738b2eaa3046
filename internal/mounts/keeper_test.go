package mounts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

const hello = "hello from " + autofs.Repository

// TestAutofsIsStartedAnew: those that have bound the old one's directory have a dead one, until the Keeper gives them the new one.
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
	k := NewKeeper(KeeperConfig{
		Source: a.Dir, Target: i.target, Program: []string{self, "renew"}, Deadline: time.Minute, Every: 20 * time.Millisecond,
		Processes: func(context.Context) ([]int, error) { return []int{i.pid, 1 << 22}, nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
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
	if err := Renew(os.Getpid(), "/", t.TempDir()); err == nil || !strings.Contains(err.Error(), "the mounts of this host") {
		t.Error(err)
	}
}

func TestStale(t *testing.T) {
	device, err := Device("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]bool{"/proc": false, "/sys": true, "/nothing/is/mounted": false} {
		if got, err := Stale(os.Getpid(), target, device); got != want || err != nil {
			t.Errorf("Stale(%s) = %v, %v", target, got, err)
		}
	}
	if stale, err := Stale(1<<22, "/proc", device); stale || err != nil {
		t.Error("a process that is gone has something stale", err)
	}
}
