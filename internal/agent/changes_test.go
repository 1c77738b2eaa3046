package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"slipway/images/changeset"
	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func TestMarksOf(t *testing.T) {
	const (
		root  = "537 482 0:136 / / rw,nodev,relatime unbindable - overlay overlay rw,lowerdir=/m/overlay-lowerdir:/m/rootfs,upperdir=/m/0/upper,workdir=/m/0/work,xino=on\n"
		user  = "537 482 0:136 / / rw,nodev,relatime unbindable - overlay overlay rw,lowerdir=/m,upperdir=/m/0/upper,workdir=/m/0/work,userxattr\n"
		fuse  = "677 317 0:145 / / rw,nosuid,nodev,noatime unbindable - fuse.fuse-overlayfs fuse-overlayfs rw,user_id=65534,group_id=65534,default_permissions,allow_other\n"
		plain = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
		bare  = "482 184 0:97 / / rw,nodev,relatime unbindable - overlay overlay rw,lowerdir=/m,upperdir=/m/0/upper,workdir=/m/0/work,redirect_dir=nofollow,uuid=null,xino=on\n"
		other = "539 537 0:6 / /dev rw,relatime master:139 - overlay overlay rw,userxattr\n"
	)
	for _, test := range []struct {
		table string
		want  changeset.Marks
		bare  bool
	}{
		{root + other, changeset.Trusted, false}, {user, changeset.User, false}, {fuse, changeset.Fuse, false}, {plain + fuse + other, changeset.Fuse, false},
		{bare, changeset.Trusted, true}, {bare + root, changeset.Trusted, false}, {plain, "", false}, {fuse + plain, "", false}, {"", "", false},
		{"garbage - overlay\n", "", false},
	} {
		got, bare, err := marksOf(test.table)
		if got != test.want || bare != test.bare || (err == nil) != (got != "") || err != nil && !errs.Is(err, errs.Missing) {
			t.Errorf("marksOf(%q) = %q, %v, want %q", test.table, got, err, test.want)
		}
	}
}

// overlayRig serves the changes of a made-up session.
func overlayRig(t *testing.T, table string) (*packer, control.Client) {
	t.Helper()
	dir := t.TempDir()
	p := &packer{overlay: filepath.Join(dir, "overlay"), proc: filepath.Join(dir, "proc"), root: filepath.Join(dir, "root"),
		hold: func() func() { return func() {} }, still: func() *stillness {
			return newStillness(filepath.Join(dir, "proc"), 1, true)
		}}
	err := errors.Join(os.MkdirAll(filepath.Join(p.proc, "self/ns"), 0o755), os.Symlink("user:[4026531837]", filepath.Join(p.proc, "self/ns/user")),
		os.WriteFile(filepath.Join(p.proc, "self/mountinfo"), []byte(table), 0o644), os.MkdirAll(filepath.Join(p.overlay, "upper/opt/.ssh"), 0o755),
		os.WriteFile(filepath.Join(p.overlay, "upper/opt/file"), []byte("changed"), 0o644), os.WriteFile(filepath.Join(p.overlay, "upper/opt/.ssh/id"), []byte("key"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(server.Close)
	return p, control.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}}
}

const fuseTable = "677 317 0:145 / / rw - fuse.fuse-overlayfs fuse-overlayfs rw\n"

// TestChanges: an agent's answer is a stream that becomes its overlay's directory again, without what is not to travel.
func TestChanges(t *testing.T) {
	testenv.Need(t, testenv.Root)
	_, client := overlayRig(t, fuseTable)
	body, err := client.Changes(t.Context(), control.ChangesRequest{Strip: []string{"/opt/.ssh"}})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	upper, err := changeset.Unpack(t.Context(), body, changeset.Target{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(upper, "opt/file")); string(b) != "changed" {
		t.Errorf("the change is %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(upper, "opt/.ssh")); err == nil {
		t.Error("what a rule strips has come")
	}
}

func TestChangesRefused(t *testing.T) {
	p, client := overlayRig(t, fuseTable)
	for _, test := range []struct {
		name, strip string
		want        errs.Kind
	}{
		{"a bad rule", "opt", errs.Invalid},
		{"one at a time", "/opt", errs.Conflict},
	} {
		if test.want == errs.Conflict {
			p.mu.Lock()
		}
		if body, err := client.Changes(t.Context(), control.ChangesRequest{Strip: []string{test.strip}}); !errs.Is(err, test.want) {
			t.Errorf("%s: %v, %v, want kind %d", test.name, body, err, test.want)
		}
	}
	p.mu.Unlock()
	r := newRig(t)
	if body, err := r.client.Changes(t.Context(), control.ChangesRequest{}); !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "no overlay") {
		t.Errorf("a session without an overlay: %v, %v, want missing", body, err)
	}
}

// TestFreshWritesOut: a file that the session's tree shows otherwise than the upper directory is written out, and
// nothing else is an error.
func TestFreshWritesOut(t *testing.T) {
	p, _ := overlayRig(t, fuseTable)
	at := filepath.Join(p.root, "opt/file")
	var st unix.Stat_t
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("more"), 0o644), unix.Stat(at, &st)); err != nil {
		t.Fatal(err)
	}
	st.Size++
	for _, path := range []string{"opt/file", "opt", "opt/none"} {
		if err := p.fresh(path, &st); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestStillness: a process and what it has started stand still and go on.
func TestStillness(t *testing.T) {
	parent := exec.Command("sh", "-c", `sh -c 'echo; while :; do :; done' & read line`)
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	parent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-parent.Process.Pid, syscall.SIGKILL)
		_ = in.Close()
		_ = parent.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s := newStillness("/proc", parent.Process.Pid, false)
	if err := s.stop(t.Context()); err != nil || len(s.stopped) != 1 {
		t.Fatalf("stop = %v, stopped %v, want the child", err, s.stopped)
	}
	child := s.stopped[0]
	if state := stateOf("/proc", child); state != 'T' {
		t.Errorf("the child is in state %c", state)
	}
	if err := s.resume(); err != nil {
		t.Error(err)
	}
	for stateOf("/proc", child) == 'T' && t.Context().Err() == nil {
		runtime.Gosched()
	}
	s.kill = func(int, syscall.Signal) error { return syscall.EPERM }
	if err := s.stop(t.Context()); !errs.Is(err, errs.Conflict) {
		t.Errorf("one that cannot be stopped: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.kill = func(int, syscall.Signal) error { return nil }
	if err := s.stop(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("stop that nobody waits for: %v", err)
	}
}
