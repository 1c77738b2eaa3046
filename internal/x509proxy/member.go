package x509proxy

import (
	"bytes"
	"crypto/x509"
	"path/filepath"
	"strings"
	"time"

	"slipway/internal/errs"
)

// member adds what VOMS says of the proxy's holder.
func (c *Checker) member(out *Proxy, l line, trusted *authorities, now time.Time) error {
	for _, p := range l.proxies {
		der, ok := extension(p, vomsAttributes)
		if !ok {
			continue
		}
		all, ok := readAttributes(der)
		if !ok {
			return refuse(again, "what the proxy says of your organisation cannot be read")
		}
		for _, a := range all {
			if err := c.vouched(out, a, l.person, trusted, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// vouched takes one attribute certificate, if its server has made it for the proxy's holder and it holds now.
func (c *Checker) vouched(
	out *Proxy, a attributes, person *x509.Certificate, trusted *authorities, now time.Time,
) error {
	anew := "make a new one: voms-proxy-init -voms " + a.vo
	switch {
	case !a.of(person):
		return refuse(
			anew, "the membership of %s in the proxy is somebody else's, not that of %s", a.vo, nameOf(person.Subject),
		)
	case now.After(a.ends):
		return refuse(anew, "the membership of %s in the proxy has expired on %s", a.vo, clock(a.ends))
	case now.Before(a.begins):
		return refuse(
			"wait until then, or set the clock of the computer where it was made",
			"the membership of %s in the proxy is not valid before %s, and it is %s here", a.vo, clock(a.begins),
			clock(now),
		)
	case a.targets:
		return refuse(
			anew+", without -target", "the membership of %s in the proxy is good for certain hosts only", a.vo,
		)
	case a.mustUnderstand != "":
		return refuse(
			anew, "the membership of %s in the proxy has an extension that must be understood and is not: %s", a.vo,
			a.mustUnderstand,
		)
	}
	server, err := a.server(trusted, now, anew)
	if err != nil {
		return err
	}
	named, err := c.named(a.vo, server)
	if err != nil {
		return err
	}
	if out.VO == "" {
		out.VO, out.Server, out.Verified = a.vo, nameOf(server[0].Subject), named
	}
	out.FQANs = append(out.FQANs, a.fqans...)
	if a.ends.Before(out.Expires) {
		out.Expires = a.ends
	}
	return nil
}

// of reports whether it is a certificate's. Some versions of VOMS name its issuer, as they should, and some its
// subject.
func (a attributes) of(person *x509.Certificate) bool {
	return a.holderSerial.Cmp(person.SerialNumber) == 0 && (bytes.Equal(a.holderIssuer, person.RawIssuer) ||
		bytes.Equal(a.holderIssuer, person.RawSubject))
}

// server returns the certificate of the server that has signed, and those above it up to an authority that is trusted.
func (a attributes) server(trusted *authorities, now time.Time, anew string) ([]*x509.Certificate, error) {
	if len(a.certificates) == 0 {
		return nil, refuse(anew, "the membership of %s in the proxy does not say which server has signed it", a.vo)
	}
	first := a.certificates[0]
	if err := strong(first); err != nil {
		return nil, err
	}
	name := nameOf(first.Subject)
	switch {
	case !bytes.Equal(a.issuer, first.RawSubject):
		return nil, refuse(
			anew, "the membership of %s in the proxy is by %s, and comes with the certificate of %s", a.vo,
			directoryName(a.issuer), name,
		)
	case a.algorithm == x509.SHA1WithRSA:
		return nil, refuse(
			"ask the administrators of "+a.vo, "the server of %s signs with SHA-1, which is not taken any more", a.vo,
		)
	case first.CheckSignature(a.algorithm, a.signed, a.signature) != nil:
		return nil, refuse(anew, "the membership of %s in the proxy is not signed by %s", a.vo, name)
	}
	return trusted.verify(first, a.certificates[1:], now)
}

// mostLSC is the most bytes of a file of a server.
const mostLSC = 64 << 10

// named reports whether the site has the server as one of the organisation, and refuses where it has others.
func (c *Checker) named(vo string, server []*x509.Certificate) (bool, error) {
	if c.cfg.VOMSDir == "" {
		return false, nil
	}
	files, err := filepath.Glob(filepath.Join(escaped(c.cfg.VOMSDir), vo, "*.lsc"))
	if err != nil || len(files) == 0 {
		return false, refuse("use an organisation that this site knows, or ask its administrator to add this one below credentials.x509.vomsdir", "this site knows no VOMS server of %s", vo)
	}
	for _, file := range files {
		text, err := readUpTo(file, mostLSC)
		if err != nil {
			return false, errs.New(errs.Unavailable, "which VOMS servers %s has cannot be read: %w", vo, err)
		}
		if lists(string(text), server) {
			return true, nil
		}
	}
	return false, refuse("ask the site's administrator whether the files in credentials.x509.vomsdir are of today",
		"the membership of %s in the proxy is signed by %s, which is no server of %s that this site knows", vo, nameOf(server[0].Subject), vo)
}

// escaped makes a path a pattern that stands for itself.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// lists reports whether a file of a VOMS server has this chain: its name, that of its authority, and those above as far
// as the file goes.
func lists(text string, server []*x509.Certificate) bool {
	var names []string
	fits := func() bool {
		ok := len(names) >= 2 && len(names) <= len(server)+1
		for i, name := range names {
			ok = ok && sameName(name, chainName(server, i))
		}
		names = nil
		return ok
	}
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "---"):
			if fits() {
				return true
			}
		case line != "" && line[0] != '#':
			names = append(names, line)
		}
	}
	return fits()
}

// chainName returns the name at a place of a chain; after the last certificate comes that one's issuer.
func chainName(chain []*x509.Certificate, i int) string {
	if i < len(chain) {
		return nameOf(chain[i].Subject)
	}
	if i == len(chain) {
		return nameOf(chain[i-1].Issuer)
	}
	return ""
}
