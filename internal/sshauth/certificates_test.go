package sshauth

import (
	"crypto/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
)

func issue(t testing.TB, a *Authority, o Owner, key ssh.PublicKey, session string) (Certificate, *ssh.Certificate) {
	t.Helper()
	c, err := a.Issue(t.Context(), o, Request{Key: plain(key), Session: session, Computer: "lap\x1b[1mtop"})
	if err != nil {
		t.Fatal(err)
	}
	return c, parsed(t, c.Text)
}

func parsed(t testing.TB, text string) *ssh.Certificate {
	t.Helper()
	k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return k.(*ssh.Certificate)
}

func TestCertificate(t *testing.T) {
	s := newMemory()
	cfg := configOf(t, s)
	a := opened(t, cfg)
	c, cert := issue(t, a, alice(), signer(t).PublicKey(), "gpu10")
	want := Pass{Owner: alice(), Key: c.Fingerprint, Serial: c.Serial, Session: "gpu10", Expires: c.Expires}
	for _, each := range []*Authority{a, opened(t, cfg)} {
		for _, login := range []string{"alice", "alice+gpu10"} {
			if p, err := each.Check(login, cert); err != nil || p != want || !each.Holds(p) {
				t.Errorf("%s: %+v, %v", login, p, err)
			}
		}
	}
	for _, login := range []string{"bob", "", "alicex", "bob+alice"} {
		if _, err := a.Check(login, cert); !errs.Is(err, errs.Forbidden) {
			t.Errorf("%s: %v", login, err)
		}
	}
	if list := a.Certificates(alice()); len(list) != 1 || list[0].Computer != "lap[1mtop" || list[0].Text == "" || len(a.Certificates(bob())) != 0 {
		t.Errorf("%+v", list)
	}
	if c.Serial >= 1<<53 || strings.Contains(s.text(), c.Text) || !strings.Contains(cert.KeyId, "main/alice") {
		t.Errorf("%+v, %s", c, cert.KeyId)
	}
}

// TestFalseCertificates: whatever somebody makes of what she has, or with an authority of her own, opens nothing.
func TestFalseCertificates(t *testing.T) {
	a, mine, other := authority(t), signer(t), signer(t)
	_, good := issue(t, a, alice(), mine.PublicKey(), AnySession)
	issue(t, a, bob(), mine.PublicKey(), AnySession)
	sign := func(change func(*ssh.Certificate), by ssh.Signer) *ssh.Certificate {
		c := *good
		c.CriticalOptions = map[string]string{hubOption: "main", sessionOption: AnySession}
		change(&c)
		if err := c.SignCert(rand.Reader, by); err != nil {
			t.Fatal(err)
		}
		return &c
	}
	ours := a.files.user
	nothing := func(*ssh.Certificate) {}
	unsigned := *good
	unsigned.ValidBefore++
	for name, c := range map[string]*ssh.Certificate{
		"another authority's":  sign(nothing, other),
		"the host authority's": sign(nothing, a.files.host),
		"a host's":             sign(func(c *ssh.Certificate) { c.CertType = ssh.HostCert }, ours),
		"of no serial":         sign(func(c *ssh.Certificate) { c.Serial++ }, ours),
		"for all users":        sign(func(c *ssh.Certificate) { c.ValidPrincipals = nil }, ours),
		"for another user":     sign(func(c *ssh.Certificate) { c.ValidPrincipals = []string{"bob"} }, ours),
		"for two users":        sign(func(c *ssh.Certificate) { c.ValidPrincipals = []string{"alice", "bob"} }, ours),
		"for another key":      sign(func(c *ssh.Certificate) { c.Key = other.PublicKey() }, ours),
		"of another hub":       sign(func(c *ssh.Certificate) { c.CriticalOptions[hubOption] = "other" }, ours),
		"of another session":   sign(func(c *ssh.Certificate) { c.CriticalOptions[sessionOption] = "x" }, ours),
		"without options":      sign(func(c *ssh.Certificate) { c.CriticalOptions = nil }, ours),
		"with another option":  sign(func(c *ssh.Certificate) { c.CriticalOptions["force-command"] = "id" }, ours),
		"from an address":      sign(func(c *ssh.Certificate) { c.CriticalOptions["source-address"] = "0.0.0.0/0" }, ours),
		"for ever":             sign(func(c *ssh.Certificate) { c.ValidBefore = ssh.CertTimeInfinity }, ours),
		"not yet":              sign(func(c *ssh.Certificate) { c.ValidAfter = uint64(time.Now().Add(time.Hour).Unix()) }, ours),
		"changed":              &unsigned,
		"nothing":              {},
		"with a broken signature": func() *ssh.Certificate {
			c := *good
			c.Signature = &ssh.Signature{Format: good.Signature.Format, Blob: make([]byte, 64)}
			return &c
		}(),
	} {
		if p, err := a.Check("alice", c); !errs.Is(err, errs.Forbidden) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if _, err := a.Check("alice", sign(nothing, ours)); err != nil {
		t.Errorf("a good one: %v", err)
	}
}

func TestRevoke(t *testing.T) {
	cfg := configOf(t, newMemory())
	a, key := opened(t, cfg), signer(t).PublicKey()
	c, cert := issue(t, a, alice(), key, AnySession)
	_, second := issue(t, a, alice(), key, AnySession)
	add(t, a, alice(), plain(key))
	p, _ := a.Check("alice", cert)
	left, _ := a.Check("alice", second)
	byKey, _ := a.Check("alice", key)
	var gone []bool
	a.OnRevoke(func(is func(Pass) bool) { gone = append(gone, is(p), is(left), is(byKey)) })
	if err := a.Revoke(t.Context(), bob(), c.Serial); !errs.Is(err, errs.NotFound) {
		t.Errorf("by bob: %v", err)
	}
	if err := a.Revoke(t.Context(), alice(), c.Serial); err != nil {
		t.Fatal(err)
	}
	if len(gone) != 3 || !gone[0] || gone[1] || gone[2] || a.Holds(p) || !a.Holds(left) || !a.Holds(byKey) {
		t.Errorf("gone: %v", gone)
	}
	for _, each := range []*Authority{a, opened(t, cfg)} {
		if _, err := each.Check("alice", cert); !errs.Is(err, errs.Forbidden) {
			t.Errorf("%v", err)
		}
	}
}

func TestCertificateExpires(t *testing.T) {
	cfg := configOf(t, newMemory())
	synctest.Test(t, func(t *testing.T) {
		a := opened(t, cfg)
		key := signer(t).PublicKey()
		_, cert := issue(t, a, alice(), key, AnySession)
		<-time.After(12*time.Hour - time.Second)
		if _, err := a.Check("alice", cert); err != nil {
			t.Errorf("before its end: %v", err)
		}
		<-time.After(2 * time.Second)
		if _, err := a.Check("alice", cert); !errs.Is(err, errs.Forbidden) || len(a.Certificates(alice())) != 0 {
			t.Errorf("after its end: %v", err)
		}
		issue(t, a, bob(), key, AnySession)
		if n := len(a.certificates); n != 1 {
			t.Errorf("%d are kept", n)
		}
		<-time.After(13 * time.Hour)
		if b := opened(t, cfg); len(b.certificates) != 0 || strings.Contains(cfg.Store.(*memory).text(), certificatesBucket) {
			t.Error("what is over is kept")
		}
	})
}

func TestCertificateLimits(t *testing.T) {
	a := authority(t)
	for range certificateLimit {
		issue(t, a, alice(), signer(t).PublicKey(), AnySession)
	}
	for name, tc := range map[string]struct {
		r    Request
		kind errs.Kind
	}{
		"too many":      {Request{Key: anEd}, errs.OverQuota},
		"no key":        {Request{}, errs.Invalid},
		"an odd server": {Request{Key: anEd, Session: "x\ny"}, errs.Invalid},
	} {
		if _, err := a.Issue(t.Context(), alice(), tc.r); !errs.Is(err, tc.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	issue(t, a, bob(), signer(t).PublicKey(), "")
}

func FuzzCheck(f *testing.F) {
	a := authority(f)
	_, cert := issue(f, a, alice(), signer(f).PublicKey(), AnySession)
	good := string(cert.Marshal())
	f.Add("alice", cert.Marshal())
	f.Add("bob", cert.Marshal())
	f.Add("alice+x", signer(f).PublicKey().Marshal())
	f.Fuzz(func(t *testing.T, login string, blob []byte) {
		key, err := ssh.ParsePublicKey(blob)
		if err != nil {
			return
		}
		if p, err := a.Check(login, key); err == nil && (p.Owner != alice() || string(blob) != good || login != "alice" && !strings.HasPrefix(login, "alice+")) {
			t.Errorf("%q is let in as %+v", login, p)
		}
	})
}
