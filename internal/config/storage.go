package config

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// StorageElement is a place with users' data that is reached by XRootD, and the cache in front of it, if any.
type StorageElement struct {
	Name     string   `yaml:"name"`     // such as eos
	Origin   string   `yaml:"origin"`   // root[s]://host:port
	Path     string   `yaml:"path"`     // the directory there below which everything lies
	Cache    string   `yaml:"cache"`    // of an XCache in front of it; empty: there is none
	Issuer   string   `yaml:"issuer"`   // of credentials.issuers; empty: the user's token of any
	Audience string   `yaml:"audience"` // of tokens that are for it alone
	Scopes   []string `yaml:"scopes"`   // of these
	Mount    bool     `yaml:"mount"`    // sessions on this host see it below /storage
	Write    bool     `yaml:"write"`    // whether anybody may write there
}

// StorageName is what an element may be called: it names a directory in sessions.
var StorageName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?$`)

// checkStorage looks at the storage elements.
func (c Config) checkStorage(p *problems) {
	names, roots := map[string]bool{}, map[string]string{}
	for i, e := range c.Data.Storage {
		at := fmt.Sprintf("data.storage[%d].", i)
		if !StorageName.MatchString(e.Name) {
			p.add(at+"name", e.Name, "a name such as eos: at most 32 lower-case letters, digits, - and _, with a letter or digit at both ends")
		}
		if names[e.Name] {
			p.add(at+"name", e.Name, "each name once")
		}
		names[e.Name] = true
		checkXRootD(at+"origin", e.Origin, p)
		if e.Cache != "" {
			checkXRootD(at+"cache", e.Cache, p)
		}
		if e.Cache != "" && e.Cache == e.Origin {
			p.add(at+"cache", e.Cache, "another server than the origin, or none")
		}
		if !cleanPath(e.Path) {
			p.add(
				at+"path", e.Path,
				"an absolute path without //, . and .., and without ? # % \\ , and spaces, such as /eos/experiment",
			)
		}
		if other := roots[e.Origin+e.Path]; other != "" {
			p.add(at+"path", e.Path, "each place once: it is "+other+"'s too")
		}
		roots[e.Origin+e.Path] = e.Name
	}
}

// cleanPath reports whether a path is absolute and says nothing twice; no name in it has a character that means
// something in a URL, or a comma, which ends an option of xrootdfs.
func cleanPath(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsAny(p, "?#%\\,") &&
		!strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// checkXRootD refuses what is no server's address: a path or a user in it would become part of what users are told.
func checkXRootD(field, text string, p *problems) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "root" && u.Scheme != "roots" || u.Hostname() == "" || u.Port() != "" && !isPort(u.Port()) || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(text, ",") {
		p.add(field, text, "root://host:port or roots://host:port, and nothing behind it")
	}
}
