package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// SiteRealm is the realm of a hub that names none.
const SiteRealm = "site"

// Hub is a JupyterHub that vouches for users.
type Hub struct {
	Name             string          `yaml:"name"` // of lower-case letters, digits, -, _ and .
	APIURL           string          `yaml:"api_url"`
	URL              string          `yaml:"url"`
	CAFile           string          `yaml:"ca_file"`
	Listen           string          `yaml:"listen"`
	Service          string          `yaml:"service"`
	TokenFile        string          `yaml:"token_file"`
	Realm            string          `yaml:"realm"`
	AdminUsers       []string        `yaml:"admin_users"`
	SpawnerTokenFile string          `yaml:"spawner_token_file"`
	UnknownSessions  UnknownSessions `yaml:"unknown_sessions"`
	Outpost          Outpost         `yaml:"outpost"`
}

// UnknownSessions says what happens to sessions that their Hub does not know.
type UnknownSessions struct {
	// Off: the Hub is not asked; report: they are counted; stop: they are stopped.
	Action string `yaml:"action" jsonschema:"enum=off,enum=report,enum=stop"`
}

// The actions on UnknownSessions.
const (
	UnknownOff    = "off"    // the Hub is not asked
	UnknownReport = "report" // they are counted
	UnknownStop   = "stop"   // they are stopped
)

// Outpost is how the Hub's OutpostSpawner meets the service.
type Outpost struct {
	Credentials []Credential `yaml:"credentials"`
	Address     string       `yaml:"address"`
	FlavorsURL  string       `yaml:"flavors_url"`
}

// Credential is a name and a password.
type Credential struct {
	Username     string `yaml:"username"`      // that the Hub presents
	PasswordFile string `yaml:"password_file"` // of 24 characters at least, mode 0600
}

func (h *Hub) setDefaults() {
	*h = Hub{Service: "slipway", UnknownSessions: UnknownSessions{Action: UnknownReport}}
}

// SpawnerToken reads what the hub's Spawner presents; empty when none is configured.
func (h Hub) SpawnerToken() (secret.Text, error) {
	return readSecret(h.SpawnerTokenFile, "the spawner token of hub "+h.Name)
}

// Token reads the API token of the Hub's service; empty when none is configured.
func (h Hub) Token() (secret.Text, error) {
	return readSecret(h.TokenFile, "the service token of hub "+h.Name)
}

// Password reads a credential's password.
func (c Credential) Password() (secret.Text, error) {
	return readSecret(c.PasswordFile, "the password of "+c.Username)
}

func readSecret(file, what string) (secret.Text, error) {
	if file == "" {
		return secret.Text{}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return secret.Text{}, fmt.Errorf("read %s: %w", what, err)
	}
	return secret.New(strings.TrimSpace(string(text))), nil
}

// API returns the address of the hub's REST API.
func (h Hub) API() (*url.URL, error) { return url.Parse(h.APIURL) }

// CA returns the authorities for the hub's certificate; nil for the system's.
func (h Hub) CA() (*x509.CertPool, error) {
	if h.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(h.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of hub %s: %w", h.Name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errs.Bad("ca_file", h.CAFile, "a file of PEM certificates")
	}
	return pool, nil
}

// PagesPrefix returns the path below which the Hub's proxy carries the service's pages, which lies beside that of its
// API; empty when the service has no pages.
func (h Hub) PagesPrefix() string {
	if h.TokenFile == "" {
		return ""
	}
	return path.Join("/", h.base(), "services", h.Service) + "/"
}

// base returns the path below which the Hub and its users' servers lie.
func (h Hub) base() string {
	u, err := h.API()
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "hub/api")
}

// plainName is what may stand in keys and paths.
var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

func (c Config) checkHubs(p *problems) {
	if len(c.Hubs) == 0 {
		p.add("hubs", "[]", "at least one hub")
	}
	names, users, bases, apis := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	realms, tokens := map[string]string{}, map[string]string{}
	for i, h := range c.Hubs {
		at := fmt.Sprintf("hubs[%d].", i)
		if !plainName.MatchString(h.Name) || names[h.Name] {
			p.add(at+"name", h.Name, "a name that no other hub has, of lower-case letters, digits, '-', '_' and '.'")
		}
		names[h.Name] = true
		if api := strings.TrimRight(h.APIURL, "/"); apis[api] {
			p.add(at+"api_url", h.APIURL, "the address of this Hub: a hub above has the same one")
		} else {
			apis[api] = true
		}
		h.check(at, p)
		h.checkRealm(at, len(c.Hubs) > 1, p)
		h.checkOutpost(at, users, p)
		h.checkListen(at, c.Listen, bases, p)
		h.checkStrangers(at, realms, p)
		h.checkSpawnerToken(at, tokens, p)
	}
}

func (h Hub) check(at string, p *problems) {
	if u, ok := webURL(h.APIURL); !ok || !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/hub/api") {
		p.add(at+"api_url", withoutPassword(h.APIURL), "the Hub's API address, such as http://127.0.0.1:8081/hub/api")
	}
	if u, ok := webURL(h.URL); h.URL != "" && (!ok || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "") {
		p.add(
			at+"url", withoutPassword(h.URL),
			"scheme and host of the Hub as users reach it, such as https://hub.example.org, or nothing",
		)
	}
	if h.Service == "" {
		p.add(
			at+"service", "", "the name of the Hub service whose access scope users' tokens must hold, such as slipway",
		)
	}
	if _, err := h.CA(); err != nil {
		p.file(at+"ca_file", h.CAFile, "a file of PEM certificates that can be read")
	}
	for key, file := range map[string]string{"spawner_token_file": h.SpawnerTokenFile, "token_file": h.TokenFile} {
		if why := checkSecretFile(file); file != "" && why != "" {
			p.file(at+key, file, why)
		}
	}
	if h.SpawnerTokenFile == "" && len(h.Outpost.Credentials) == 0 {
		p.add(
			at+"spawner_token_file", "", "the file with the token of the Hub's SlipwaySpawner, or outpost.credentials",
		)
	}
	switch h.UnknownSessions.Action {
	case UnknownOff, UnknownReport, UnknownStop:
	default:
		p.add(at+"unknown_sessions.action", h.UnknownSessions.Action, "off, report or stop")
	}
}

// checkRealm wants it said whether the users of several hubs are the same people: a guess would give one the other's
// home.
func (h Hub) checkRealm(at string, several bool, p *problems) {
	switch {
	case h.Realm == "" && several:
		p.add(at+"realm", "", "with several hubs each must say whose users it has: one name for hubs whose users of one name are the same person, "+
			"different names otherwise; the realm "+SiteRealm+" keeps the homes of a hub that was alone before")
	case h.Realm != "" && !plainName.MatchString(h.Realm):
		p.add(at+"realm", h.Realm, "a word of lower-case letters, digits, '-', '_' and '.'")
	}
}

// checkListen wants a path to be one hub's: hubs that share an address must differ in their base paths.
func (h Hub) checkListen(at, common string, bases map[string]bool, p *problems) {
	if h.Listen != "" && !listenable(h.Listen) {
		p.add(at+"listen", h.Listen, "an address of its own, such as 127.0.0.1:8091, or nothing")
	}
	if h.Listen == common {
		p.add(at+"listen", h.Listen, "another address, such as 127.0.0.1:8091: this one is the common `listen`; or nothing")
	}
	if place := h.Listen + " " + h.base(); bases[place] {
		p.add(at+"listen", h.Listen, "an address of its own, such as 127.0.0.1:8091: a hub above answers at the same one, and has the same base path "+
			h.base()+" in its api_url")
	} else {
		bases[place] = true
	}
}

// checkStrangers keeps hubs apart whose users are not the same people. What a user brings to a shared address says
// nothing of whose token it is, so that all hubs there are asked in turn, and who runs one would get hold of the
// others' tokens.
func (h Hub) checkStrangers(at string, realms map[string]string, p *problems) {
	if first, ok := realms[h.Listen]; ok && first != h.Realm && h.Realm != "" {
		p.add(at+"listen", h.Listen, "an address of its own, such as 127.0.0.1:8091: a hub above answers at the same one and has users of the realm "+first+
			", whose tokens this hub would be shown")
		return
	}
	realms[h.Listen] = h.Realm
}

// checkSpawnerToken wants a token to name a hub: with one for two hubs of an address, what the second asked for would
// be the first's.
func (h Hub) checkSpawnerToken(at string, tokens map[string]string, p *problems) {
	token, err := h.SpawnerToken()
	if err != nil || token.Empty() {
		return // said elsewhere
	}
	place := h.Listen + " " + token.Reveal()
	if first := tokens[place]; first != "" {
		p.add(at+"spawner_token_file", h.SpawnerTokenFile, "a token of its own: that of hub "+first+" is the same")
	}
	tokens[place] = h.Name
}

func (h Hub) checkOutpost(at string, users map[string]bool, p *problems) {
	for j, c := range h.Outpost.Credentials {
		at := fmt.Sprintf("%soutpost.credentials[%d].", at, j)
		if c.Username == "" || strings.Contains(c.Username, ":") || users[c.Username] {
			p.add(at+"username", c.Username, "a name without ':' that no other credential has")
		}
		users[c.Username] = true
		if why := checkSecretFile(c.PasswordFile); why != "" {
			p.file(at+"password_file", c.PasswordFile, why)
		}
	}
	if a := h.Outpost.Address; a != "" {
		if host, _, err := net.SplitHostPort(a); err != nil || !dialable(a) || strings.Contains(host, ":") {
			p.add(
				at+"outpost.address", a,
				"host:port as the Hub reaches this service; OutpostSpawner takes no IPv6 address",
			)
		}
	}
	if _, ok := webURL(h.Outpost.FlavorsURL); h.Outpost.FlavorsURL != "" && (!ok || h.TokenFile == "") {
		p.add(
			at+"outpost.flavors_url", withoutPassword(h.Outpost.FlavorsURL),
			"an address such as http://127.0.0.1:8081/hub/api/outpostflavors/NAME, beside a token_file",
		)
	}
}

// webURL reads an address. One with a password in it would show it wherever the address is told.
func webURL(text string) (*url.URL, bool) {
	u, err := url.Parse(text)
	return u, err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && (u.Port() == "" || isPort(u.Port()))
}

// withoutPassword returns an address as it may be shown. In one that is none, what stands before an @ may be a
// password.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	switch at := strings.LastIndex(address, "@"); {
	case err == nil && u.User != nil:
		return u.Redacted()
	case at >= 0 && (err != nil || u.Host == ""):
		return "xxxxx" + address[at:]
	}
	return address
}

// checkSecretFile says what is wrong with a file that holds a secret; empty when nothing is.
func checkSecretFile(file string) string {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "`(umask 077; openssl rand -hex 32 > " + file + ")` makes it; the Hub's configuration holds the same secret"
	}
	if err != nil {
		return "a file that can be read: " + err.Error()
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Sprintf("a file that only its owner can read (it has mode %04o): chmod 600 it", info.Mode().Perm())
	}
	text, err := readSecret(file, "a secret")
	if err != nil || len(text.Reveal()) < tokenLength {
		return fmt.Sprintf("a file with at least %d characters: openssl rand -hex 32 makes some", tokenLength)
	}
	return ""
}
