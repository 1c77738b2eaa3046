package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/testenv"
)

// TestSSHAttackers lets somebody who has a key and a session of her own, and somebody who has nothing, try all that
// they may not.
func TestSSHAttackers(t *testing.T) {
	t.Parallel()
	s := newSSHSite(t)
	id := s.session("alice", "one")
	s.session("mallory", "one")
	alice, mallory := s.laptop(t, "alice"), s.laptop(t, "mallory")
	alice.remote("echo hers >/tmp/secret")
	t.Run("scripts", func(t *testing.T) { s.attackScripts(t, id, alice, mallory) })
	t.Run("certificates", func(t *testing.T) { s.certificates(t) })
	t.Run("a withdrawn key", func(t *testing.T) { s.withdrawnKey(t) })
	t.Run("a PROXY header", func(t *testing.T) { s.proxyHeader(alice.in(t)) })
	t.Run("guesses", func(t *testing.T) { s.guesses(alice.in(t)) })
	if got := alice.remote("cat /tmp/secret"); got != "hers" {
		t.Errorf("after all this alice has %q", got)
	}
	log, err := os.ReadFile(filepath.Join(s.dir, "serve.log"))
	if err != nil || bytes.Contains(log, []byte("panic")) || bytes.Contains(log, []byte("PRIVATE KEY")) {
		t.Errorf("the service's log is not as it should be: %v", err)
	}
}

// from returns the same machine at another of the loopback's addresses, so that failures count as that one's.
func (l *laptop) from(address string) *laptop {
	l.t.Helper()
	other := *l
	other.config = l.path("config-" + address)
	l.write("config-"+address, l.read("config")+"BindAddress "+address+"\n")
	return &other
}

// as returns the same machine with another name to log in with.
func (l *laptop) as(user string) *laptop {
	other := *l
	_, host, _ := strings.Cut(l.login, "@")
	other.login = user + "@" + host
	return &other
}

// certificates looks at what becomes of one that is bound to a session, and of one that is withdrawn.
func (s *sshSite) certificates(t *testing.T) {
	alice := newLaptop(t, s.gateway, "alice").from("127.0.0.5")
	c := s.certificate(alice, "another")
	alice.write("key-cert.pub", string(ssh.MarshalAuthorizedKey(c)))
	if e := alice.ssh("echo in"); e.code != 255 || e.out != "" {
		t.Errorf("a certificate for another session: %s", e)
	}
	c = s.certificate(alice, "")
	alice.write("key-cert.pub", string(ssh.MarshalAuthorizedKey(c)))
	p := alice.start(alice.sshArgs("echo up; exec sleep 1000")...)
	p.says("up")
	if r := s.call("alice", http.MethodDelete, "/api/v1/ssh/certificates/"+strconv.FormatUint(c.Serial, 10), nil); r.status >= 300 {
		t.Fatalf("revoke: %d %s", r.status, r.body)
	}
	if code := p.wait(); code == 0 {
		t.Error("a revoked certificate's connection has ended well")
	}
	alice.refused(alice.sshArgs("true")...)
}

// refused expects that a login does not succeed, in the words for somebody who is not known.
func (l *laptop) refused(argv ...string) {
	l.t.Helper()
	if e := l.run(nil, argv...); e.code == 0 || e.out != "" || !strings.Contains(e.errs, "Permission denied") {
		l.t.Errorf("%q: %s", argv, e)
	}
}

// certificate has one issued for the laptop's key.
func (s *sshSite) certificate(l *laptop, session string) *ssh.Certificate {
	l.t.Helper()
	r := s.call("alice", http.MethodPost, "/api/v1/ssh/certificates", map[string]any{"key": l.public(), "session": session})
	if r.status >= 300 {
		l.t.Fatalf("issue a certificate: %d %s", r.status, r.body)
	}
	text, _ := r.object(l.t)["certificate"].(string)
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		l.t.Fatalf("%s: %v", text, err)
	}
	c, ok := key.(*ssh.Certificate)
	if !ok {
		l.t.Fatalf("%s is no certificate", text)
	}
	return c
}

// connect opens a connection from an address of the loopback.
func (s *sshSite) connect(t testing.TB, from string) net.Conn {
	t.Helper()
	c, err := s.tryConnect(from)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *sshSite) tryConnect(from string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 30 * time.Second}
	return d.Dial("tcp", net.JoinHostPort(s.host, strconv.Itoa(s.port)))
}

func (s *sshSite) withdrawnKey(t *testing.T) {
	l := s.laptop(t, "alice").from("127.0.0.7")
	print := strings.Fields(l.must("ssh-keygen", "-l", "-f", l.path("key.pub")))[1]
	p := l.start(l.sshArgs("echo up; exec sleep 1000")...)
	p.says("up")
	if r := s.call("mallory", http.MethodDelete, "/api/v1/ssh/keys/"+strings.ReplaceAll(print, "/", "%2F"), nil); r.status != http.StatusNotFound {
		t.Errorf("mallory withdraws alice's key: %d %s", r.status, r.body)
	}
	if r := s.call("alice", http.MethodDelete, "/api/v1/ssh/keys/"+strings.ReplaceAll(print, "/", "%2F"), nil); r.status >= 300 {
		t.Fatalf("withdraw a key: %d %s", r.status, r.body)
	}
	began := time.Now()
	if code := p.wait(); code == 0 {
		t.Error("a withdrawn key's connection has ended well")
	}
	if d := time.Since(began); d > time.Minute { // a second is promised; the machine of a test may be busy
		t.Errorf("a withdrawn key's connection has ended after %s", d)
	}
	l.refused(l.sshArgs("true")...)
}

// proxyHeader claims to be somewhere else. Nobody is a proxy here.
func (s *sshSite) proxyHeader(l *laptop) {
	key, err := ssh.ParsePrivateKey([]byte(l.read("key")))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, header := range []string{"PROXY TCP4 192.0.2.99 192.0.2.1 4444 22\r\n", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x63\xc0\x00\x02\x01\x11\x5c\x00\x16"} {
		c := s.connect(l.t, "127.0.0.8")
		_ = c.SetDeadline(time.Now().Add(testenv.Hang))
		_, _ = io.WriteString(c, header)
		if conn, _, _, err := ssh.NewClientConn(c, "x", &ssh.ClientConfig{
			User: "alice", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		}); err == nil {
			conn.Close()
		}
		c.Close()
	}
	log, err := os.ReadFile(filepath.Join(s.dir, "serve.log"))
	if err != nil || bytes.Contains(log, []byte("192.0.2.99")) {
		l.t.Errorf("the address that a stranger claims is believed: %v", err)
	}
}

// guesses fails to log in until the address is under suspicion, which keeps nobody out who has a good key.
func (s *sshSite) guesses(l *laptop) {
	stranger, err := ssh.ParsePrivateKey([]byte(newLaptop(l.t, s.gateway, "alice").read("key")))
	if err != nil {
		l.t.Fatal(err)
	}
	for range 40 {
		c := s.connect(l.t, "127.0.0.9")
		_ = c.SetDeadline(time.Now().Add(testenv.Hang))
		_, _, _, err := ssh.NewClientConn(c, "x", &ssh.ClientConfig{
			User: "alice", Auth: []ssh.AuthMethod{ssh.PublicKeys(stranger)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		})
		if err == nil {
			l.t.Fatal("a stranger's key is let in")
		}
		c.Close()
	}
	if e := l.from("127.0.0.9").ssh("true"); e.code != 0 {
		l.t.Errorf("a good key from an address that has failed 40 times: %s", e)
	}
	l.remote("true")
}
