package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner"
)

// share has the jobs of a world share mounts of their images.
func (w *world) share(t testing.TB) {
	t.Helper()
	w.cfg.Squashfs = func(string) (int64, error) { return 0, nil }
	if err := w.backend(t).Shares(t.Context()); err != nil {
		if strings.Contains(os.Getenv("SLIPWAY_TEST_REQUIRE"), string(testenv.Apptainer)) {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		must(t, w.backend(t).Tidy(context.WithoutCancel(t.Context())))
		if left := w.servers(t); len(left) > 0 {
			t.Errorf("images are left mounted by processes %d", left)
		}
		if left, _ := filepath.Glob(filepath.Join(w.cfg.Dir, "images", "*")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// servers returns those who serve images to the world's jobs.
func (w *world) servers(t testing.TB) (all []int) {
	t.Helper()
	for _, at := range []string{"", "pids/"} {
		files, err := filepath.Glob("/sys/fs/cgroup/" + at + "slipway-test/" + w.cfg.Instance + "/image-*/cgroup.procs")
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
				continue
			}
			must(t, err)
			for _, pid := range strings.Fields(string(text)) {
				n, err := strconv.Atoi(pid)
				must(t, err)
				all = append(all, n)
			}
		}
	}
	return all
}

// other makes the launch of another account.
func other(t testing.TB, l *spawner.Launch) {
	t.Helper()
	l.Account.UID, l.Account.GID, l.Account.Login = 54323, 54324, "otto"
	l.Account.HomeDir += ".otto"
	must(t, os.MkdirAll(l.Account.HomeDir, 0o711))
	for _, dir := range []string{l.Account.HomeDir, filepath.Join(l.Dir, "run")} {
		must(t, os.Chown(dir, l.Account.UID, l.Account.GID))
	}
}

const untilTold = "touch /var/tmp/up; while ! [ -e /var/tmp/end ]; do busybox sleep 0.1; done; busybox cat /bin/busybox > /var/tmp/copy || exit 7"

// tell has the job end, once it has begun.
func (j job) tell(t testing.TB) {
	t.Helper()
	j.file(t, "up")
	must(t, os.WriteFile(filepath.Join(j.world.cfg.Dir, string(j.ID), "scratch/var_tmp/end"), nil, 0o644))
}

// TestJobsShareAMount: those of one account have one, those of another have another, which lets nobody else in.
func TestJobsShareAMount(t *testing.T) {
	w := newWorld(t)
	w.share(t)
	w.script(t, untilTold)
	first, second := start(t, w, w.launch(t)), start(t, w, w.launch(t))
	servers := w.servers(t)
	if len(servers) != 1 {
		t.Fatalf("%d processes serve one image to one account", len(servers))
	}
	theirs := w.launch(t)
	other(t, &theirs)
	third := start(t, w, theirs)
	if n := len(w.servers(t)); n != 2 {
		t.Errorf("%d processes serve two accounts", n)
	}
	mount := filepath.Join("/proc", strconv.Itoa(servers[0]), "root/run/slipway-job")
	for _, ids := range [][2]uint32{{0, 0}, {54323, 54324}, {54321, 54324}} {
		cmd := exec.Command("ls", mount)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ids[0], Gid: ids[1]}}
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%v reads the mount of 54321: %s", ids, out)
		}
	}
	must(t, w.backend(t).Tidy(t.Context()))
	first.tell(t)
	if o := first.exited(t); o.ExitCode != 0 {
		t.Errorf("a job that uses the image when what nobody uses is unmounted: %+v", o)
	}
	must(t, first.Remove(t.Context(), first.ID))
	second.tell(t)
	third.tell(t)
	second.exited(t)
	third.exited(t)
	again := start(t, w, w.launch(t))
	again.tell(t)
	again.exited(t)
	if now := w.servers(t); len(now) != 2 || !slices.Contains(now, servers[0]) {
		t.Errorf("%d serve, not %d any more: the next point of a scan does not find it", now, servers)
	}
}

// TestSharedImageLooksTheSame as one that the job mounts by itself.
func TestSharedImageLooksTheSame(t *testing.T) {
	see := func(shared bool) string {
		w := newWorld(t)
		if shared {
			w.share(t)
		}
		w.script(t, `cd /; busybox find / -xdev ! -path "/etc/*" -exec busybox stat -c '%n %a %u %g %h %s %Y %F' {} + | busybox grep -v " directory$" | busybox sort
busybox env | busybox sort | busybox grep -v SLIPWAY_ID; busybox md5sum /bin/busybox; busybox grep " / " /proc/mounts; busybox touch /bin/new /new 2>&1`)
		j := start(t, w, w.launch(t))
		if n := len(w.servers(t)); (n == 1) != shared {
			t.Errorf("%d processes serve the image", n)
		}
		j.exited(t)
		return strings.ReplaceAll(j.output(), string(j.ID), "ID")
	}
	alone, shared := see(false), see(true)
	if alone != shared || !strings.Contains(alone, "/bin/busybox 755 54321 54322 1 ") {
		t.Errorf("a job with a mount of its own sees\n%s\none with a shared one\n%s", alone, shared)
	}
}

// TestServerIsKilled: the next job has another.
func TestServerIsKilled(t *testing.T) {
	w := newWorld(t)
	w.share(t)
	w.script(t, untilTold)
	hit := start(t, w, w.launch(t))
	hit.file(t, "up")
	for _, pid := range w.servers(t) {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	hit.tell(t)
	if o := hit.exited(t); o.ExitCode == 0 {
		t.Errorf("a job whose image is gone: %+v", o)
	}
	next := start(t, w, w.launch(t))
	next.tell(t)
	if o := next.exited(t); o.ExitCode != 0 || len(w.servers(t)) != 1 {
		t.Errorf("the next one: %+v, served by %d\n%s", o, w.servers(t), next.output())
	}
}

// TestServerThatDoesNotAnswer keeps no job from being ended.
func TestServerThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.share(t)
	w.script(t, "touch /var/tmp/up\nwhile :; do busybox ls -lR / > /dev/null; done")
	j := start(t, w, w.launch(t))
	j.file(t, "up")
	for _, pid := range w.servers(t) {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
	}
	must(t, j.Stop(t.Context(), j.ID, 0))
	if n := alive(t); n > 1 {
		t.Errorf("%d processes are left", n)
	}
}

// TestUnmountableImages: the job is told by Apptainer, and nothing is left.
func TestUnmountableImages(t *testing.T) {
	for name, text := range map[string]string{"no squashfs": strings.Repeat("x", 9000), "hostile": "hsqs" + strings.Repeat("\xff", 9000), "empty": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.share(t)
			l := w.launch(t)
			l.SIF = filepath.Join(w.root, "bad.sif")
			must(t, os.WriteFile(l.SIF, []byte(text), 0o644))
			o := start(t, w, l).exited(t)
			if o.ExitCode != 255 || !strings.HasPrefix(o.Reason, "its container could not be made: ") {
				t.Errorf("Observe = %+v", o)
			}
		})
	}
}

// TestKilledServiceWithSharedImage kills the service at many points of the first start on an image.
func TestKilledServiceWithSharedImage(t *testing.T) {
	for _, after := range []time.Duration{0, 4, 8, 16, 30, 60, 100} {
		w := newWorld(t)
		w.share(t)
		w.script(t, "echo run >> /var/tmp/runs\n"+untilTold)
		l := w.launch(t)
		text, err := json.Marshal(order{w.cfg, l, after * time.Millisecond, nil, true})
		must(t, err)
		if out, err := exec.Command(w.cfg.Self, "test-service", string(text)).CombinedOutput(); err == nil || len(out) > 0 {
			t.Fatalf("the service was to be killed: %v\n%s", err, out)
		}
		must(t, w.backend(t).Tidy(t.Context()))
		j := start(t, w, l)
		j.file(t, "up")
		if got := j.file(t, "runs"); got != "run\n" {
			t.Errorf("killed after %v ms: runs %q", int(after), got)
		}
		if n := len(w.servers(t)); n != 1 {
			t.Errorf("killed after %v ms: %d serve the image", int(after), n)
		}
		j.tell(t)
		if o := j.exited(t); o.ExitCode != 0 {
			t.Errorf("killed after %v ms: %+v", int(after), o)
		}
		must(t, j.Tidy(t.Context()))
		if n := alive(t); n > 0 {
			t.Errorf("killed after %v ms: %d processes are left", int(after), n)
		}
	}
}
