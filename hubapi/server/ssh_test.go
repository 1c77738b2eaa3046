package server

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/sshauth"
)

func TestSSHKeysOverTheAPI(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.SSH = authority(t, c.Logins) })
	alice, bob := h.client(t, "alice-token"), h.client(t, "bob-token")
	k, err := alice.AddSSHKey(t.Context(), hubapi.SSHKeyRequest{Key: alicesKey + " x", Comment: "laptop"})
	if err != nil || k.Fingerprint != alicesPrint || k.Comment != "laptop" || k.Used != nil || k.Key != alicesKey {
		t.Fatalf("%+v, %v", k, err)
	}
	if list, err := alice.SSHKeys(t.Context()); err != nil || len(list) != 1 || list[0] != k {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := bob.SSHKeys(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("bob sees %+v, %v", list, err)
	}
	if err := bob.RemoveSSHKey(t.Context(), k.Fingerprint); !errs.Is(err, errs.NotFound) {
		t.Errorf("bob removes it: %v", err)
	}
	if err := alice.RemoveSSHKey(t.Context(), k.Fingerprint); err != nil {
		t.Error(err)
	}
	secret := "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZ\n"
	if _, err := alice.AddSSHKey(t.Context(), hubapi.SSHKeyRequest{Key: secret}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "PRIVATE") {
		t.Errorf("%v", err)
	}
	logged := h.logged.String()
	for _, words := range []string{`msg="an ssh key is added" key=` + alicesPrint, `msg="an ssh key is removed" key=` + alicesPrint, "user=alice"} {
		if !strings.Contains(logged, words) {
			t.Errorf("the log does not say %q", words)
		}
	}
	if strings.Contains(logged, "b3BlbnNzaC1") {
		t.Error("the private key is in the log")
	}
}

func TestSSHCertificatesOverTheAPI(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.SSH = authority(t, c.Logins) })
	alice, bob := h.client(t, "alice-token"), h.client(t, "bob-token")
	c, err := alice.IssueSSHCertificate(t.Context(), hubapi.SSHCertificateRequest{
		Key: alicesKey, Session: "gpu10", Computer: "laptop",
	})
	if err != nil || !strings.HasPrefix(c.Certificate, "ssh-ed25519-cert-v01@openssh.com ") || c.Fingerprint != alicesPrint || c.Session != "gpu10" {
		t.Fatalf("%+v, %v", c, err)
	}
	list, err := alice.SSHCertificates(t.Context())
	if err != nil || len(list) != 1 || list[0].Serial != c.Serial || list[0].Certificate != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := bob.RevokeSSHCertificate(t.Context(), c.Serial); !errs.Is(err, errs.NotFound) {
		t.Errorf("bob revokes it: %v", err)
	}
	if err := alice.RevokeSSHCertificate(t.Context(), c.Serial); err != nil {
		t.Error(err)
	}
	if list, err := alice.SSHCertificates(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, words := range []string{"an ssh certificate is issued", "an ssh certificate is revoked"} {
		if !strings.Contains(h.logged.String(), words) {
			t.Errorf("the log does not say %q", words)
		}
	}
}

// TestEndSSH: a user ends her own connections, by the API and on the page, and nobody else's.
func TestEndSSH(t *testing.T) {
	h := startPages(t, newFake(), func(c *Config) { c.SSH = authority(t, c.Logins) })
	hers, his := sshauth.Pass{Owner: sshauth.Owner{Hub: "main", User: "alice"}}, sshauth.Pass{Owner: sshauth.Owner{Hub: "main", User: "bob"}}
	ended := make(chan bool, 1)
	h.cfg.SSH.OnRevoke(func(gone func(sshauth.Pass) bool) { ended <- gone(hers) && !gone(his) })
	if err := h.client(t, "alice-token").EndSSHConnections(t.Context()); err != nil || len(ended) == 0 || !<-ended {
		t.Errorf("by the API: %v", err)
	}
	p := h.visitor(t, "alice")
	if status, _, _ := p.post("ssh/connections/end", "", nil); status != http.StatusForbidden || len(ended) != 0 {
		t.Errorf("without the form's token: %d", status)
	}
	if status, to, body := p.post("ssh/connections/end", formToken(t, p.read("ssh")), nil); status != http.StatusSeeOther || to != "ssh/connections/ended" || len(ended) == 0 || !<-ended {
		t.Errorf("on the page: %d %s", status, body)
	}
	if page := p.read("ssh/connections/ended"); !strings.Contains(page, "connections are ended") {
		t.Errorf("%s", page)
	}
	if strings.Count(h.logged.String(), "all ssh connections are ended") != 2 {
		t.Error("the log does not say it")
	}
}

// TestAddressOf: what a header says of an address counts where a trusted proxy has written it. Otherwise the address is
// unknown to who is shown it, and limits go by the peer.
func TestAddressOf(t *testing.T) {
	s := New(Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}, Engine: newFake(), Logger: quiet()})
	for _, tc := range []struct {
		from, header, value string
		peer, shown         string
	}{
		{"[::ffff:192.0.2.7]:1234", "", "", "192.0.2.7", "192.0.2.7"},
		{"192.0.2.7:1", "X-Forwarded-For", "203.0.113.1", "192.0.2.7", ""},
		{"192.0.2.7:1", "Forwarded", "for=203.0.113.1", "192.0.2.7", ""},
		{"192.0.2.7:1", "Via", "1.1 x", "192.0.2.7", ""},
		{"192.0.2.7:1", "X-Real-IP", "203.0.113.1", "192.0.2.7", ""},
		{"192.0.2.7:1", "X-Other", "203.0.113.1", "192.0.2.7", "192.0.2.7"},
		{"127.0.0.1:1", "X-Forwarded-For", "203.0.113.1", "203.0.113.1", "203.0.113.1"},
		{"127.0.0.1:1", "X-Forwarded-For", "6.6.6.6, 203.0.113.1, 10.0.0.9", "203.0.113.1", "203.0.113.1"},
		{"127.0.0.1:1", "X-Forwarded-For", "203.0.113.1, rubbish", "127.0.0.1", ""},
		{"127.0.0.1:1", "Via", "1.1 x", "127.0.0.1", ""},
		{"127.0.0.1:1", "", "", "127.0.0.1", "127.0.0.1"},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		if r.RemoteAddr = tc.from; tc.header != "" {
			r.Header.Set(tc.header, tc.value)
		}
		shown, err := s.Web.AddressOf(r).MarshalText()
		if peer := s.Web.PeerOf(r).String(); err != nil || peer != tc.peer || string(shown) != tc.shown {
			t.Errorf("from %s with %s: %s: %s, shown %q, want %s and %q", tc.from, tc.header, tc.value, peer, shown, tc.peer, tc.shown)
		}
	}
}

// TestForgedHeadersPushOutNobody: who asks for logins in a row, under whatever headers, does not end those of others.
func TestForgedHeadersPushOutNobody(t *testing.T) {
	h := startPages(t, newFake(), func(c *Config) { c.SSH = authority(t, c.Logins) })
	front := h.Public()
	ask := func(from string, i int) string {
		r := httptest.NewRequest("POST", "/api/v1/ssh/logins", strings.NewReader(`{"hub":"main","key":"`+freeKey+`"}`))
		r.RemoteAddr = from + ":1"
		if i > 0 {
			r.Header.Set([]string{"Via", "X-Forwarded-For", "Forwarded"}[i%3], fmt.Sprintf("203.0.%d.%d", i/250, i%250))
		}
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		var login hubapi.DeviceLogin
		if err := json.Unmarshal(w.Body.Bytes(), &login); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return login.ID
	}
	victim := ask("192.0.2.7", 0)
	for i := range 2100 {
		ask("198.51.100.6", i+1)
	}
	if state, err := h.cfg.SSH.Poll(t.Context(), victim); err != nil || !state.Pending {
		t.Errorf("the other's login: %+v, %v", state, err)
	}
}

// TestWhoHasNoKeys: what runs in a session may be somebody else's notebook, and must not let its author in for ever.
func TestWhoHasNoKeys(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice")), func(c *Config) {
		c.SSH = authority(t, c.Logins)
		add(t, c.SSH, "alice", alicesKey)
	})
	body := `{"key":"` + freeKey + `"}`
	post := fmt.Sprintf(" HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	requests := []string{
		"POST %s/ssh/keys" + post, "GET %s/ssh/keys HTTP/1.1\r\nHost: x\r\n\r\n", "DELETE %s/ssh/keys/" + alicesPrint + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET %s/ssh/certificates HTTP/1.1\r\nHost: x\r\n\r\n", "DELETE %s/ssh/certificates/1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST %s/ssh/certificates" + post, "DELETE %s/ssh/connections HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	for _, id := range []string{"s-alice", "j-alice"} {
		for _, request := range requests {
			request = strings.Replace(request, "%s", hubapi.Base, 1)
			status, body := raw(t, agentServer(t, h.AgentAPI(), id), request)
			if status != http.StatusForbidden || !strings.Contains(body, "out of a session or job") {
				t.Errorf("%s: %.60s: %d %s", id, request, status, body)
			}
		}
		if status, body := raw(t, agentServer(t, h.AgentAPI(), id), "GET "+hubapi.Base+"/ssh HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 || !strings.Contains(body, "hub.test") {
			t.Errorf("%s: %d %s", id, status, body)
		}
	}
	if _, err := h.client(t, spawnerToken).AddSSHKey(t.Context(), hubapi.SSHKeyRequest{Key: freeKey}); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a hub's Spawner: %v", err)
	}
	if keys := h.cfg.SSH.Keys(sshauth.Owner{Hub: "main", User: "alice"}); len(keys) != 1 {
		t.Errorf("%+v", keys)
	}
}

func TestSSHLogin(t *testing.T) {
	h := start(t, newFake(named("s-two", "alice", "two")), func(c *Config) { c.SSH = authority(t, c.Logins) })
	nobody := h.client(t, "")
	service, err := nobody.SSH(t.Context())
	if err != nil || !service.On || service.Host != "hub.test" || service.Port != 2222 || len(service.Pages) != 1 || len(service.KnownHosts) != 4 {
		t.Fatalf("%+v, %v", service, err)
	}
	l, err := nobody.BeginSSHLogin(t.Context(), hubapi.SSHLoginRequest{Key: alicesKey, Computer: "laptop"})
	if err != nil || l.URL != service.Pages[0].URL || l.Interval < 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	if s, err := nobody.PollSSHLogin(t.Context(), l.ID); err != nil || !s.Pending || s.Certificate != nil {
		t.Errorf("%+v, %v", s, err)
	}
	alice := sshauth.Owner{Hub: "main", User: "alice"}
	if _, err := h.cfg.Logins.Find(alice, l.Code); err != nil {
		t.Fatal(err)
	}
	if _, err := h.cfg.Logins.Decide(alice, l.Code, true); err != nil {
		t.Fatal(err)
	}
	s, err := nobody.PollSSHLogin(t.Context(), l.ID)
	if err != nil || s.Pending || s.User != "alice" || s.Hub != "main" || s.Certificate.Session != hubapi.AnySession || strings.Join(s.Targets, " ") != "small two" {
		t.Fatalf("%+v, %v", s, err)
	}
	if _, err := nobody.PollSSHLogin(t.Context(), l.ID); !errs.Is(err, errs.NotFound) {
		t.Errorf("%v", err)
	}
	for _, r := range []hubapi.SSHLoginRequest{{Key: ""}, {Key: "x"}, {Key: alicesKey, Hub: "nowhere"}} {
		if _, err := nobody.BeginSSHLogin(t.Context(), r); !errs.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if logged := h.logged.String(); !strings.Contains(logged, "an ssh certificate is issued") || !strings.Contains(logged, "computer=laptop") || strings.Contains(logged, l.ID) {
		t.Error("the log does not say it, or says the secret")
	}
}

func TestNoSSH(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/")), nil)
	alice := h.client(t, "alice-token")
	if s, err := alice.SSH(t.Context()); err != nil || s.On {
		t.Errorf("%+v, %v", s, err)
	}
	_, errKeys := alice.SSHKeys(t.Context())
	_, errBegin := alice.BeginSSHLogin(t.Context(), hubapi.SSHLoginRequest{Key: alicesKey})
	_, errPoll := alice.PollSSHLogin(t.Context(), "x")
	for _, err := range []error{errKeys, errBegin, errPoll} {
		if !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "ssh.listen") {
			t.Errorf("%v", err)
		}
	}
	if s, err := alice.Session(t.Context(), "s-alice"); err != nil || s.SSH != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSessionSaysItsLine(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), named("s-two", "alice", "two")), func(c *Config) { c.SSH = authority(t, c.Logins) })
	for id, want := range map[string]string{"s-alice": "ssh -p 2222 alice@hub.test", "s-two": "ssh -p 2222 alice+two@hub.test"} {
		if s, err := h.client(t, "alice-token").Session(t.Context(), id); err != nil || s.SSH != want {
			t.Errorf("%s: %q, %v", id, s.SSH, err)
		}
	}
}

// TestSSHLogout: a certificate ends for who holds its key, without a token, and once.
func TestSSHLogout(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.SSH = authority(t, c.Logins) })
	_, private, _ := ed25519.GenerateKey(rand.Reader)
	mine, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := string(ssh.MarshalAuthorizedKey(mine.PublicKey()))
	c, err := h.client(t, "alice-token").IssueSSHCertificate(t.Context(), hubapi.SSHCertificateRequest{Key: public, Session: hubapi.AnySession})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(serial uint64) error {
		out := hubapi.SSHLogout{Serial: c.Serial, Key: public}
		signed, _ := mine.Sign(rand.Reader, out.Words())
		out.Serial, out.Format, out.Signature = serial, signed.Format, signed.Blob
		return h.client(t, "").LogOutSSH(t.Context(), out)
	}
	alice := sshauth.Owner{Hub: "main", User: "alice"}
	if err := ask(c.Serial + 1); err != nil || len(h.cfg.SSH.Certificates(alice)) != 1 {
		t.Errorf("one that there is not: %v", err)
	}
	other, err := h.client(t, "alice-token").IssueSSHCertificate(t.Context(), hubapi.SSHCertificateRequest{Key: freeKey, Session: hubapi.AnySession})
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(other.Serial); !errs.Is(err, errs.Forbidden) || len(h.cfg.SSH.Certificates(alice)) != 2 {
		t.Errorf("another key's: %v", err)
	}
	for range 2 {
		if err := ask(c.Serial); err != nil || len(h.cfg.SSH.Certificates(alice)) != 1 {
			t.Error(err)
		}
	}
	if n := strings.Count(h.logged.String(), "withdrawn by its key"); n != 1 || !strings.Contains(h.logged.String(), "serial="+strconv.FormatUint(c.Serial, 10)) {
		t.Errorf("the log says it %d times", n)
	}
}
