package config

import (
	"crypto/x509"
	"net/url"
	"os"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/loopback"
)

// Uplink is how sessions and jobs on other hosts reach the service.
type Uplink struct {
	URL    string `yaml:"url"`     // https://host; empty: they do not
	CAFile string `yaml:"ca_file"` // what the certificate there is checked against; empty: what their hosts trust
}

// At returns a place of the service as other hosts reach it, by the path of the route.
func (u Uplink) At(path ...string) *url.URL {
	at, ok := webURL(u.URL)
	if !ok {
		return &url.URL{}
	}
	return at.JoinPath(path...)
}

// CA reads the certificates, PEM; empty where none are named.
func (u Uplink) CA() (string, error) {
	if u.CAFile == "" {
		return "", nil
	}
	pem, err := os.ReadFile(u.CAFile)
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return "", errs.Bad("uplink.ca_file", u.CAFile, "a file of PEM certificates that can be read")
	}
	return string(pem), nil
}

// checkUplink wants an address at which no secret is read on the way.
func (c Config) checkUplink(p *problems) {
	u := c.Uplink
	at, ok := webURL(u.URL)
	switch {
	case u.URL == "":
	case !ok || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "":
		p.add(
			"uplink.url", withoutPassword(u.URL),
			"the service's address for other hosts, without a path, such as https://slipway.example.org",
		)
	case at.Scheme != "https" && !loopback.Is(at.Hostname()):
		p.add("uplink.url", u.URL, "an address that begins with https://: secrets travel there")
	}
	if _, err := u.CA(); err != nil {
		*p = append(*p, err)
	}
}
