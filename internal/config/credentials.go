package config

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// Credentials are users' tokens and proxies, which the service keeps and brings to their sessions and jobs.
type Credentials struct {
	Issuers []Issuer `yaml:"issuers"`
	X509    X509     `yaml:"x509"`
}

// Issuer is an OIDC issuer whose tokens users may have.
type Issuer struct {
	Name             string   `yaml:"name"` // such as wlcg
	URL              string   `yaml:"issuer"`
	ClientID         string   `yaml:"client_id"`
	ClientSecretFile string   `yaml:"client_secret_file"` // empty: a public client
	Scopes           []string `yaml:"scopes"`             // asked for at a login
	CAFile           string   `yaml:"ca_file"`            // empty: the host's authorities
	HubKey           string   `yaml:"hub_key"`            // where the Hub's auth_state has the refresh token; empty: it is not asked
}

func defaultCredentials() Credentials { return Credentials{Issuers: []Issuer{}} }

func (i *Issuer) setDefaults() {
	*i = Issuer{Scopes: []string{"openid", "offline_access"}}
}

// ClientSecret reads the secret of Slipway at the issuer; empty when none is configured.
func (i Issuer) ClientSecret() (secret.Text, error) {
	return readSecret(i.ClientSecretFile, "the client secret of issuer "+i.Name)
}

// CA reads the authorities for the issuer's certificate; nil for the host's.
func (i Issuer) CA() ([]byte, error) {
	if i.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(i.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of issuer %s: %w", i.Name, err)
	}
	return pem, nil
}

// issuerNames are the names of the issuers, for what refers to them.
func (c Config) issuerNames() []string {
	var names []string
	for _, i := range c.Credentials.Issuers {
		names = append(names, i.Name)
	}
	return names
}

// checkCredentials looks at the issuers, and at the storage elements that name one. Both name files in sessions.
func (c Config) checkCredentials(p *problems) {
	names := map[string]bool{"x509": true}
	for i, issuer := range c.Credentials.Issuers {
		at := fmt.Sprintf("credentials.issuers[%d].", i)
		if !StorageName.MatchString(issuer.Name) {
			p.add(at+"name", issuer.Name, "a name such as wlcg: at most 32 lower-case letters, digits, - and _, with a letter or digit at both ends")
		}
		if names[issuer.Name] {
			p.add(at+"name", issuer.Name, "each name once, and none called x509, which is the proxies'")
		}
		names[issuer.Name] = true
		issuer.check(at, p)
		if issuer.HubKey != "" && !slices.ContainsFunc(c.Hubs, func(h Hub) bool { return h.TokenFile != "" }) {
			p.add(at+"hub_key", issuer.HubKey, "a hub with a token_file, which reads it there; or empty")
		}
	}
	for i, e := range c.Data.Storage {
		at := fmt.Sprintf("data.storage[%d].", i)
		if e.Issuer != "" && !slices.Contains(c.issuerNames(), e.Issuer) {
			p.add(at+"issuer", e.Issuer, "the name of one of credentials.issuers")
		}
		if e.Issuer == "" && (e.Audience != "" || len(e.Scopes) > 0) {
			p.add(at+"issuer", "", "whose tokens are to have that audience and those scopes")
		}
		if e.Issuer != "" && names[e.Name] {
			p.add(at+"name", e.Name, "another name than that of an issuer: both name files with tokens")
		}
	}
}

func (i Issuer) check(at string, p *problems) {
	u, err := url.Parse(i.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Port() != "" && !isPort(u.Port()) || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		p.add(at+"issuer", i.URL, "the issuer's address as its tokens have it, which begins with https://")
	}
	if i.ClientID == "" {
		p.add(at+"client_id", "", "the name under which the issuer knows Slipway")
	}
	for _, s := range i.Scopes {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			p.add(at+"scopes", s, "scopes without spaces, one each")
		}
	}
	if strings.HasPrefix(i.HubKey, ".") || strings.HasSuffix(i.HubKey, ".") || strings.Contains(i.HubKey, "..") {
		p.add(
			at+"hub_key", i.HubKey,
			"keys with dots between them, such as refresh_token or token_response.refresh_token",
		)
	}
	if _, err := i.ClientSecret(); err != nil {
		p.add(at+"client_secret_file", i.ClientSecretFile, errs.Brief(err))
	}
	if _, err := i.CA(); err != nil {
		p.add(at+"ca_file", i.CAFile, errs.Brief(err))
	}
}
