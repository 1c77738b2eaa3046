package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"slipway/internal/testenv/program"
)

// attackScripts runs the scripts in which the attacker is one of the personas: OpenSSH's programs, and commands for
// what these do not send, against the service and a real session. Each script comes from an address of its own, so that
// its failures count as that one's.
func (s *sshSite) attackScripts(t *testing.T, id string, alice, mallory *laptop) {
	s.decorate(t, id, alice)
	outside := newTrap(t)
	var scripts atomic.Int32
	testscript.RunT(inTurn{t}, testscript.Params{
		Dir: "testdata/attack", RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			from := fmt.Sprintf("127.0.2.%d", scripts.Add(1))
			p := &persona{site: s, from: from, alice: alice.from(from), outside: outside}
			e.Values["persona"] = p
			e.Defer(p.leave)
			e.Setenv("GATE", s.host)
			e.Setenv("GATEPORT", strconv.Itoa(s.port))
			e.Setenv("SERVICEPORT", s.url[strings.LastIndex(s.url, ":")+1:])
			e.Setenv("HOSTPORT", outside.port)
			e.Setenv("LONG", strings.Repeat("x", 300))
			config := func(name string, l *laptop, from string) error {
				return os.WriteFile(filepath.Join(e.WorkDir, name), []byte(l.read("config")+"BindAddress "+from+"\n"), 0o600)
			}
			return errors.Join(config("alice", alice, from), config("mallory", mallory, from), config("elsewhere", alice, "127.0.3.1"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": program.Exits, "refused": refused, "refuses": refuses, "forge": forge, "unreached": unreached, "closed": closed, "crowd": crowd,
			"half": half, "ended": endedAll, "lets-in": letsIn, "knock": knock, "payloads": payloads, "environments": environments,
		},
	})
}

// inTurn runs scripts one after the other. In parallel each would wait behind all other tests, beside a site that does
// nothing.
type inTurn struct{ *testing.T }

func (t inTurn) Parallel()     {}
func (t inTurn) Verbose() bool { return testing.Verbose() }
func (t inTurn) Run(name string, script func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { script(inTurn{t}) })
}

// persona is who plays a script.
type persona struct {
	site    *sshSite
	from    string
	alice   *laptop // from there
	outside *trap
	forged  *laptop
	held    []net.Conn
}

func personaOf(ts *testscript.TestScript) *persona { return ts.Value("persona").(*persona) }

func (p *persona) leave() {
	for _, c := range p.held {
		c.Close()
	}
}

// trap is what listens on the host's loopback, and should never be reached.
type trap struct {
	port    string
	reached atomic.Int32
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	trap := &trap{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	(&laptop{t: t}).serve(listener, func(net.Conn) { trap.reached.Add(1) })
	_, trap.port, _ = net.SplitHostPort(listener.Addr().String())
	return trap
}

// decorate puts into a session what its user is not to reach through ssh: an address of the link at which something
// answers, with names, and a socket of root's. What tells where it is listened on goes with it.
func (s *sshSite) decorate(t *testing.T, id string, alice *laptop) {
	t.Helper()
	pid := containerPID(t, id)
	alice.write("outside.py", `import socket, sys
for name, host in ("127.0.0.1", "127.0.0.1"), ("eth0", socket.gethostbyname(socket.gethostname())):
    try:
        socket.create_connection((host, int(sys.argv[1])), 20).close()
        print(name, "open")
    except ConnectionRefusedError:
        print(name, "refused")
`)
	alice.must("scp", "-q", "-F", alice.config, "outside.py", alice.login+":/tmp/outside.py")
	run := func(argv ...string) {
		t.Helper()
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	run("nsenter", "--target", pid, "--net", "ip", "address", "add", "169.254.169.254/32", "dev", "lo")
	run("docker", "exec", "--user", "0", "slipway-"+id, "sh", "-c", "printf '169.254.169.254 metadata.example.org\n::ffff:169.254.169.254 mapped.example.org\n' >>/etc/hosts")
	run("docker", "exec", "--user", "0", "--detach", "slipway-"+id, "/opt/env/bin/python3", "-c",
		"import os, socket, time; os.umask(0o077); s = socket.socket(socket.AF_UNIX); s.bind('/tmp/others.sock'); s.listen(); time.sleep(1000)")
	p := alice.in(t).start(alice.sshArgs(`exec python3 -uc "
import http.server
class Secret(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'secret of the cloud\n')
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('169.254.169.254', 80), Secret)
print('up')
server.serve_forever()"`)...)
	p.says("up")
	alice.in(t).eventually("the socket is there", func() bool { return alice.ssh("test -S /tmp/others.sock").code == 0 })
}

// tried runs a program that is to fail, and gives what it has printed.
func tried(ts *testscript.TestScript, argv []string) (out, errs string) {
	if len(argv) == 0 {
		ts.Fatalf("no command")
	}
	if err := ts.Exec(argv[0], argv[1:]...); err == nil {
		ts.Fatalf("%q succeeds", argv)
	}
	return ts.ReadFile("stdout"), ts.ReadFile("stderr")
}

// refused runs a program that must not get in, and is told what everybody is told who is not known: `refused ssh -F
// mallory alice@$GATE`.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	if out, errs := tried(ts, args); neg || out != "" || !strings.Contains(errs, "Permission denied") {
		ts.Fatalf("%q is not refused as a stranger is", args)
	}
}

// refuses runs a program that must fail without having read anything, for a reason that it says: `refuses 'open failed'
// ssh ...`.
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refuses REASON COMMAND ARGS...")
	}
	if out, errs := tried(ts, args[1:]); out != "" || !regexp.MustCompile(args[0]).MatchString(errs) {
		ts.Fatalf("%q does not fail for the reason %q", args[1:], args[0])
	}
}

// unreached says that the host's loopback was not reached by anybody.
func unreached(ts *testscript.TestScript, _ bool, _ []string) {
	if n := personaOf(ts).outside.reached.Load(); n != 0 {
		ts.Fatalf("the host's loopback was reached %d times", n)
	}
}

// closed tries forwards to sockets as alice: `closed /var/run/docker.sock`.
func closed(ts *testscript.TestScript, _ bool, args []string) {
	c, err := personaOf(ts).dial()
	ts.Check(err)
	defer c.Close()
	for _, path := range args {
		if far, err := c.Dial("unix", path); err == nil {
			far.Close()
			ts.Fatalf("%s is reached", path)
		}
	}
}
