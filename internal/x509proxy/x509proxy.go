// Package x509proxy reads and validates X.509 proxies: what a Grid user makes of her certificate for some hours, so
// that programs act for her (RFC 3820, and the older kind that is known by its name alone).
//
// The package promises that a proxy which passes is one that storage elements can take: its key is its own, every
// certificate is signed by the next, the first authority is one that the site trusts and its revocation list and
// signing policy permit it, no part has expired, and what a VOMS server says of its holder was signed by that server
// for her. It refuses what gives less than it seems to: limited and restricted proxies. It bounds what it reads, and
// runs no other program.
//
// It must not keep what it was given, and no error of it has a byte of a key.
package x509proxy

import (
	"fmt"
	"time"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Config says what is trusted.
type Config struct {
	Trust string // a directory of authorities as the Grid has it: HASH.0, HASH.r0, HASH.signing_policy
	// of the VOMS servers: <vo>/<host>.lsc; empty: any server with a trusted certificate is taken
	VOMSDir string
	Longest time.Duration    // that a proxy may still last; 0: any time
	Now     func() time.Time // nil: time.Now
}

// Checker validates proxies. It is safe for concurrent use, and sees changes of its directories at the next call.
type Checker struct {
	cfg   Config
	trust *directory
}

// Proxy is what a proxy says, once it is found good.
type Proxy struct {
	// the proxy, its key and its chain, in the order that every program reads; nothing else that was sent
	Text     secret.Text
	Subject  string    // whose it is: the name in her certificate, such as "/C=DE/O=GermanGrid/CN=Alice"
	Issuer   string    // the authority that vouches for her
	Depth    int       // how many proxies lie between
	Legacy   bool      // of the kind before RFC 3820
	VO       string    // the first organisation; empty: none
	FQANs    []string  // groups and roles in all of them, the first is the default
	Server   string    // the VOMS server's name in its certificate; empty: none
	Verified bool      // VOMSDir names that server for that organisation
	Expires  time.Time // the first moment at which some part of it holds no longer
}

// Open makes a checker. It fails when the directory of authorities cannot be read or has none.
func Open(cfg Config) (*Checker, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Checker{cfg: cfg, trust: &directory{path: cfg.Trust}}
	_, err := c.trust.read()
	return c, err
}

// Faults are the files of the directory of authorities that could not be used, each with its reason.
func (c *Checker) Faults() ([]string, error) {
	a, err := c.trust.read()
	if err != nil {
		return nil, err
	}
	return a.faults, nil
}

// Check validates a proxy as it lies in a file: certificates and the key in PEM.
func (c *Checker) Check(text secret.Text) (Proxy, error) {
	now := c.cfg.Now()
	parts, err := split(text.Reveal())
	if err != nil {
		return Proxy{}, err
	}
	line, err := parts.line()
	if err != nil {
		return Proxy{}, err
	}
	if err := line.check(parts.key, now); err != nil {
		return Proxy{}, err
	}
	authorities, err := c.trust.read()
	if err != nil {
		return Proxy{}, err
	}
	path, err := authorities.verify(line.person, line.others, now)
	if err != nil {
		return Proxy{}, err
	}
	out := Proxy{
		Subject: nameOf(line.person.Subject), Issuer: nameOf(line.person.Issuer), Depth: len(line.proxies),
		Legacy: line.legacy(), Expires: line.expires(path),
	}
	if err := c.member(&out, line, authorities, now); err != nil {
		return Proxy{}, err
	}
	out.Text = line.pem(parts.key, path)
	return out, c.short(out, now)
}

// Screen finds what is wrong with a proxy by itself, before it leaves its user's computer: above all that it is none,
// but a certificate with its own key. Who stands behind it is not looked at.
func Screen(text secret.Text, now time.Time) error {
	parts, err := split(text.Reveal())
	if err != nil {
		return err
	}
	line, err := parts.line()
	if err != nil {
		return err
	}
	return line.check(parts.key, now)
}

// short refuses a proxy that lasts longer than the site takes.
func (c *Checker) short(p Proxy, now time.Time) error {
	left := p.Expires.Sub(now)
	if c.cfg.Longest <= 0 || left <= c.cfg.Longest {
		return nil
	}
	hours := int(c.cfg.Longest.Hours())
	return refuse(fmt.Sprintf(
		"make a shorter one: voms-proxy-init -valid %d:%02d", hours, int(c.cfg.Longest.Minutes())%60,
	),
		"the proxy lasts %s, and this site takes %s at most", left.Round(time.Minute), c.cfg.Longest)
}

// again is the remedy that fits most faults.
const again = "make a new one with voms-proxy-init, with -voms and your organisation where you have one"

// refuse makes the error of a proxy that is not good.
func refuse(remedy, format string, args ...any) error {
	e := errs.New(errs.Invalid, format, args...).With(remedy)
	e.Field = "proxy"
	return e
}

// clock writes a moment.
func clock(t time.Time) string { return t.UTC().Format("2 January 2006 15:04:05 UTC") }
