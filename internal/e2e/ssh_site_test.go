package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/testenv"
)

// gateway is where ssh clients of a test connect to, and by what they know that they are right there.
type gateway struct {
	host       string
	port       int
	knownHosts []string
}

// sshSite is a site with ssh on.
type sshSite struct {
	*site
	gateway
}

// newSSHSite starts one; more are keys of its configuration of ssh.
func newSSHSite(t testing.TB, more ...string) *sshSite {
	testenv.Need(t, testenv.OpenSSH, testenv.Rsync)
	port := testenv.FreePorts(t, 1)[0]
	s := &sshSite{site: newSite(t, fmt.Sprintf(`ssh: {listen: "127.0.0.1:%d", host: 127.0.0.1%s}`, port, strings.Join(append([]string{""}, more...), ", ")))}
	s.gateway = s.published()
	if s.port != port {
		t.Fatalf("ssh is at port %d and published as %d", port, s.port)
	}
	return s
}

// published is what the service tells everybody.
func (s *site) published() gateway {
	s.t.Helper()
	r := s.call("", http.MethodGet, "/api/v1/ssh", nil)
	var o struct {
		On         bool
		Host       string
		Port       int
		KnownHosts []string `json:"known_hosts"`
	}
	if err := json.Unmarshal(r.body, &o); err != nil || !o.On || len(o.KnownHosts) == 0 {
		s.t.Fatalf("the service tells of ssh: %d %s", r.status, r.body)
	}
	return gateway{o.Host, o.Port, o.KnownHosts}
}

// laptop is somebody's machine, with a key of hers and OpenSSH's programs, set up without any tool of ours.
type laptop struct {
	t      testing.TB
	dir    string
	config string // ssh's configuration
	login  string // USER@HOST
}

// newLaptop makes one that logs in as a user. Its key is registered nowhere.
func newLaptop(t testing.TB, g gateway, user string) *laptop {
	t.Helper()
	dir, err := os.MkdirTemp("", "ssh") // not the test's own: a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &laptop{t: t, dir: dir, config: filepath.Join(dir, "config"), login: user + "@" + g.host}
	l.write("known_hosts", strings.Join(g.knownHosts, "\n")+"\n")
	l.write("config", fmt.Sprintf(`Host *
Port %d
IdentityFile %[2]s/key
IdentitiesOnly yes
UserKnownHostsFile %[2]s/known_hosts
GlobalKnownHostsFile none
StrictHostKeyChecking yes
BatchMode yes
LogLevel ERROR
`, g.port, dir))
	l.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", user, "-f", l.path("key"))
	return l
}

// laptop makes the machine of a user who has registered its key.
func (s *sshSite) laptop(t testing.TB, user string) *laptop {
	t.Helper()
	l := newLaptop(t, s.gateway, user)
	if r := s.call(user, http.MethodPost, "/api/v1/ssh/keys", map[string]any{"key": l.public(), "comment": "laptop"}); r.status >= 300 {
		t.Fatalf("register a key: %d %s", r.status, r.body)
	}
	return l
}

// in returns the same machine for the errors of another test.
func (l *laptop) in(t testing.TB) *laptop {
	same := *l
	same.t = t
	return &same
}

func (l *laptop) path(name string) string { return filepath.Join(l.dir, name) }

func (l *laptop) public() string { return l.read("key.pub") }

func (l *laptop) write(name, text string) {
	l.t.Helper()
	if err := os.WriteFile(l.path(name), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *laptop) read(name string) string {
	l.t.Helper()
	text, err := os.ReadFile(l.path(name))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(text)
}

// ended is how a program has ended.
type ended struct {
	out, errs string
	code      int // -1: by a signal
}

// command prepares a program on the laptop, which is killed when the test has lasted far too long.
func (l *laptop) command(argv ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(l.t.Context(), testenv.Hang)
	l.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir = l.dir
	c.Env = append(os.Environ(), "HOME="+l.dir, "SSH_AUTH_SOCK=", "DISPLAY=")
	c.WaitDelay = 5 * time.Second
	return c
}

// String shortens what is long.
func (e ended) String() string { return fmt.Sprintf("%.2000q %.2000q %d", e.out, e.errs, e.code) }

// run runs a program to its end.
func (l *laptop) run(stdin io.Reader, argv ...string) ended {
	l.t.Helper()
	return l.finish(l.command(argv...), stdin)
}

func (l *laptop) finish(c *exec.Cmd, stdin io.Reader) ended {
	l.t.Helper()
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = stdin, &out, &errs
	err := c.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		l.t.Fatalf("%q: %v: %s", c.Args, err, errs.String())
	}
	return ended{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

// must runs a program that may not fail, and gives what it prints.
func (l *laptop) must(argv ...string) string {
	l.t.Helper()
	e := l.run(nil, argv...)
	if e.code != 0 {
		l.t.Fatalf("%q: exit code %d: %s%s", argv, e.code, e.out, e.errs)
	}
	return e.out
}

// sshArgs returns the argument list of ssh to the laptop's session.
func (l *laptop) sshArgs(args ...string) []string {
	flags := []string{"ssh", "-F", l.config}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		take := 1
		if strings.Contains("-o -L -R -D -S -W -J -O -b -e -l", args[0]) {
			take = 2
		}
		flags = append(flags, args[:take]...)
		args = args[take:]
	}
	return append(append(flags, l.login), args...)
}

// ssh runs ssh: flags first, the command after them.
func (l *laptop) ssh(args ...string) ended {
	l.t.Helper()
	return l.run(nil, l.sshArgs(args...)...)
}

// remote runs a shell command in the session, which may not fail, and gives what it prints.
func (l *laptop) remote(command string) string {
	l.t.Helper()
	e := l.ssh(command)
	if e.code != 0 {
		l.t.Fatalf("%s: exit code %d: %s%s", command, e.code, e.out, e.errs)
	}
	return strings.TrimSpace(e.out)
}

// started is a program of the laptop that runs beside the test, and is ended with it.
type started struct {
	l     *laptop
	c     *exec.Cmd
	stdin io.WriteCloser
	out   *watched
	errs  *watched
}

func (l *laptop) start(argv ...string) *started {
	l.t.Helper()
	p := &started{l: l, c: l.command(argv...), out: newWatched(), errs: newWatched()}
	p.c.Stdout, p.c.Stderr = p.out, p.errs
	var err error
	if p.stdin, err = p.c.StdinPipe(); err != nil {
		l.t.Fatal(err)
	}
	if err := p.c.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { p.end() })
	return p
}

// end kills it, if it still runs.
func (p *started) end() {
	if p.c.ProcessState == nil {
		_ = p.c.Process.Kill()
		_ = p.c.Wait()
	}
}

// wait waits until it has ended by itself and gives its exit code.
func (p *started) wait() int {
	p.l.t.Helper()
	timer := time.AfterFunc(testenv.Hang, func() { _ = p.c.Process.Kill() })
	_ = p.c.Wait() // its exit code says more
	if !timer.Stop() {
		p.l.t.Fatalf("%q does not end within %s: %s%s", p.c.Args, testenv.Hang, p.out, p.errs)
	}
	return p.c.ProcessState.ExitCode()
}

// says waits until it has printed a text, and gives all that it has printed.
func (p *started) says(text string) string { p.l.t.Helper(); return p.out.await(p, text) }

// complains is the same for its other channel.
func (p *started) complains(text string) string { p.l.t.Helper(); return p.errs.await(p, text) }

// watched collects what a program prints.
type watched struct {
	mu     sync.Mutex
	text   bytes.Buffer
	change chan struct{} // holds one thing when there is more
}

func newWatched() *watched { return &watched{change: make(chan struct{}, 1)} }

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.text.Write(b)
	w.mu.Unlock()
	select {
	case w.change <- struct{}{}:
	default:
	}
	return len(b), nil
}

// String returns it as far as it has come.
func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *watched) await(p *started, text string) string {
	p.l.t.Helper()
	limit := time.After(testenv.Hang)
	for {
		if all := w.String(); strings.Contains(all, text) {
			return all
		}
		select {
		case <-w.change:
		case <-limit:
			p.l.t.Fatalf("%q does not say %q but %s%s", p.c.Args, text, p.out, p.errs)
		}
	}
}

// listening waits until something accepts connections at an address of the laptop.
func (l *laptop) listening(network, address string) {
	l.t.Helper()
	testenv.Until(l.t, "something listens at "+address, testenv.Hang, func() bool {
		c, err := net.Dial(network, address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// noise is n bytes that no compression makes smaller and every test can make again.
func noise(n int) []byte {
	var b bytes.Buffer
	for sum := sha256.Sum256([]byte("noise")); b.Len() < n; sum = sha256.Sum256(sum[:]) {
		b.Write(sum[:])
	}
	return b.Bytes()[:n]
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// allBytes is each byte, many times, with what terminals and careless programs change: CRLF, NUL, Ctrl-C, Ctrl-D,
// `\n~.`.
func allBytes() []byte {
	var b bytes.Buffer
	for range 300 {
		for i := range 256 {
			b.WriteByte(byte(i))
		}
		b.WriteString("\r\n\n~.\n\x03\x04\r")
	}
	return b.Bytes()
}

// feature is a line of the table of what ssh can do.
type feature struct {
	name string
	try  func(l *laptop)
}

// tryAll goes through tables of features on one session.
func tryAll(t *testing.T, l *laptop, tables ...[]feature) {
	program, err := filepath.Abs("testdata/peer.py")
	if err != nil {
		t.Fatal(err)
	}
	l.must("scp", "-F", l.config, program, l.login+":/tmp/peer.py")
	for _, table := range tables {
		for _, f := range table {
			t.Run(f.name, func(t *testing.T) { f.try(l.in(t)) })
		}
	}
}

// expect compares what a program has done.
func (l *laptop) expect(what string, got, want ended) {
	l.t.Helper()
	if got != want {
		l.t.Errorf("%s gives\n%s\nwant\n%s", what, got, want)
	}
}

// TestSSH goes through the table of what OpenSSH's users expect, and the same of other clients, on one session.
func TestSSH(t *testing.T) {
	t.Parallel()
	s := newSSHSite(t)
	s.mountSmallDisk(s.startRoomy("alice", "one"))
	l := s.laptop(t, "alice")
	tryAll(t, l, shellFeatures, fileFeatures, forwardFeatures, manyFeatures, otherClients)
}

// startRoomy starts a session that does not make the test wait for processor time.
func (s *sshSite) startRoomy(user, launch string) string {
	s.t.Helper()
	r := s.askWith(user, launch, map[string]any{"cpus": "2", "memory": "1G"})
	if r.status != http.StatusAccepted {
		s.t.Fatalf("start: %d %s", r.status, r.body)
	}
	id := r.object(s.t)["id"].(string)
	s.running(id)
	return id
}
