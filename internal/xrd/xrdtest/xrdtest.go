// Package xrdtest runs real XRootD servers for tests, each in a directory of its own on free ports, from the
// configurations in deploy/xrootd: an origin, an XCache, and both with tokens of an issuer of the test's own.
//
// It changes nothing of the host: servers trust the test's authority in a mount namespace of their own.
package xrdtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/testenv"
)

// Patience is how long a test waits for a server on a machine that has much else to do.
const Patience = testenv.Hang

// Server is one running xrootd.
type Server struct {
	URL  string // root://localhost:port
	Data string // the directory on this host that is its /data

	t       testing.TB
	home    string
	name    string
	port    string
	argv    []string
	env     []string
	command *exec.Cmd
	done    chan struct{}
}

// Origin starts a plain data server.
func Origin(t testing.TB) *Server {
	t.Helper()
	return start(t, "xrootd-origin.cfg", nil, nil)
}

// Cache starts an XCache in front of an origin.
func Cache(t testing.TB, origin *Server) *Server {
	t.Helper()
	return start(t, "xrootd-cache.cfg", map[string]string{"origin": origin.address()}, nil)
}

func (s *Server) address() string { return "localhost:" + s.port }

// start starts a server by a configuration of deploy/xrootd, with other values of its `set` lines.
func start(t testing.TB, name string, set map[string]string, trust *Trust) *Server {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.XRootD)
	home := directory(t)
	s := &Server{
		t: t, home: home, name: strings.TrimSuffix(strings.TrimPrefix(name, "xrootd-"), ".cfg"),
		port: strconv.Itoa(testenv.FreePorts(t, 1)[0]), Data: filepath.Join(home, "dir/data"),
	}
	s.URL = "root://" + s.address()
	values := map[string]string{"port": s.port}
	for _, d := range []string{"dir", "dir/data", "spool", "run"} {
		Make(t, filepath.Join(home, d))
		values[d] = filepath.Join(home, d)
	}
	delete(values, "dir/data")
	for k, v := range set {
		values[k] = v
	}
	cfg := filepath.Join(home, name)
	Write(t, cfg, configure(t, name, values), 0o644)
	s.argv = []string{"xrootd", "-R", "xrootd", "-c", cfg, "-n", s.name, "-l", filepath.Join(home, "log")}
	s.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, "run")}
	if trust != nil {
		s.argv, s.env = trust.inside(s.argv), append(s.env, trust.Env()...)
		if token := set["token"]; token != "" {
			s.env = append(s.env, "BEARER_TOKEN_FILE="+token)
		}
	}
	t.Cleanup(s.Kill)
	s.Start()
	return s
}

// configure returns a configuration of deploy/xrootd with other values of its `set` lines, and bounds of the cache that
// a test's disk has.
func configure(t testing.TB, name string, values map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Checkout(t), "deploy/xrootd", name))
	if err != nil {
		t.Fatal(err)
	}
	out := regexp.MustCompile(`(?m)^set (\w+) = .*$`).ReplaceAllStringFunc(string(text), func(line string) string {
		key := strings.Fields(line)[1]
		v, known := values[key]
		if !known {
			t.Fatalf("%s: no value for %q", name, key)
		}
		return "set " + key + " = " + v
	})
	return strings.ReplaceAll(out, "files 800g 900g 950g", "files 2g 3g 4g")
}

// Start starts a server that was killed, and waits until it listens.
func (s *Server) Start() {
	s.t.Helper()
	s.command = exec.Command(s.argv[0], s.argv[1:]...)
	s.command.Env, s.command.Dir = s.env, s.home
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.done = make(chan struct{})
	if err := begin(s.command, s.done); err != nil {
		s.t.Fatal(err)
	}
	Eventually(s.t, s.name+" listens on "+s.port, func() error {
		select {
		case <-s.done:
			s.t.Fatalf("%s has ended: %s", s.name, s.Log())
		default:
		}
		c, err := net.Dial("tcp", "127.0.0.1:"+s.port)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
}

// begin starts a program, and closes done when it has ended. The kernel kills the program when the thread ends that has
// started it: a thread of this process' own waits for it, as others end with who has changed them, a mounter's among
// them.
func begin(c *exec.Cmd, done chan struct{}) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait()
		}
		close(done)
	}()
	return <-started
}

// Kill ends a server at once, whatever it is doing.
func (s *Server) Kill() {
	if s.command == nil {
		return
	}
	_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL)
	<-s.done
	s.command = nil
}

// Freeze stops a server without ending it, as one that hangs; Thaw lets it go on.
func (s *Server) Freeze() { _ = syscall.Kill(-s.command.Process.Pid, syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { _ = syscall.Kill(-s.command.Process.Pid, syscall.SIGCONT) }

// Log returns the last that a server has written.
func (s *Server) Log() string {
	paths, _ := filepath.Glob(filepath.Join(s.home, "*", "log"))
	out := ""
	for _, p := range append(paths, filepath.Join(s.home, "log")) {
		b, _ := os.ReadFile(p)
		out += string(b[max(0, len(b)-6000):])
	}
	return out
}

// Put makes a file of a server's data.
func (s *Server) Put(name, text string) {
	s.t.Helper()
	Make(s.t, filepath.Dir(filepath.Join(s.Data, name)))
	Write(s.t, filepath.Join(s.Data, name), text, 0o644)
}

// Eventually waits for something.
func Eventually(t testing.TB, what string, try func() error) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Log(err)
		}
	}()
	testenv.Until(t, what, Patience, func() bool { err = try(); return err == nil })
}

// directory returns one that xrootd's user can reach, which t.TempDir's is not.
func directory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "xrdtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	own(t, dir)
	return dir
}

// Make makes a directory that is xrootd's, and those above it.
func Make(t testing.TB, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); err == nil {
		return
	}
	Make(t, filepath.Dir(dir))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	own(t, dir)
}

// Write makes a file that is xrootd's.
func Write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	own(t, path)
}

func own(t testing.TB, path string) {
	t.Helper()
	u, err := user.Lookup("xrootd")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
}

// Copy runs xrdcp, and gives what it says.
func Copy(t testing.TB, env []string, from, to string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	c := exec.CommandContext(ctx, "xrdcp", "--nopbar", "--force", from, to)
	c.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "XRD_CONNECTIONRETRY=1", "XRD_CONNECTIONWINDOW=5",
		"XRD_STREAMERRORWINDOW=0",
	}, env...)
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}
