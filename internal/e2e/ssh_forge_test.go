package e2e

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
)

// forgeries are what is made of a certificate of alice's. It is signed again by the site's own authority, or by
// another.
var forgeries = map[string]struct {
	change  func(c *ssh.Certificate)
	foreign bool
}{
	"as-issued":            {change: func(*ssh.Certificate) {}},
	"expired":              {change: func(c *ssh.Certificate) { c.ValidBefore = uint64(time.Now().Unix()) - 10 }},
	"not-yet-valid":        {change: func(c *ssh.Certificate) { c.ValidAfter = uint64(time.Now().Unix()) + 1000 }},
	"valid-for-longer":     {change: func(c *ssh.Certificate) { c.ValidBefore = ssh.CertTimeInfinity }},
	"of-another-authority": {change: func(*ssh.Certificate) {}, foreign: true},
	"naming-another":       {change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"mallory"} }},
	"for-everybody":        {change: func(c *ssh.Certificate) { c.ValidPrincipals = nil }},
	"with-another-number":  {change: func(c *ssh.Certificate) { c.Serial++ }},
	"of-a-host":            {change: func(c *ssh.Certificate) { c.CertType = ssh.HostCert }},
	"for-any-session":      {change: func(c *ssh.Certificate) { c.CriticalOptions = nil }},
}

// forge writes what is almost a certificate, for a key that is registered nowhere, and the configuration `forged` that
// uses it.
func forge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || forgeries[args[0]].change == nil {
		ts.Fatalf("usage: forge NAME")
	}
	p, kind := personaOf(ts), forgeries[args[0]]
	if p.forged == nil {
		p.forged = newLaptop(p.site.t, p.site.gateway, "alice").from(p.from)
		ts.Check(os.WriteFile(ts.MkAbs("forged"), []byte(p.forged.read("config")+"BindAddress "+p.from+"\n"), 0o600))
	}
	c := *p.site.certificate(p.forged, "")
	kind.change(&c)
	from := filepath.Join(p.site.dir, "data/ssh/user_ca") // who has this has everything
	if kind.foreign {
		from = p.forged.path("key")
	}
	text, err := os.ReadFile(from)
	ts.Check(err)
	signer, err := ssh.ParsePrivateKey(text)
	ts.Check(err)
	ts.Check(c.SignCert(rand.Reader, signer))
	p.forged.write("key-cert.pub", string(ssh.MarshalAuthorizedKey(&c)))
}
