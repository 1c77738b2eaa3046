package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"slipway/internal/errs"
)

// tokenLength is the least length of a spawner token.
const tokenLength = 24

// Check finds everything that is wrong and can be found without doing anything: all of it at once, each with its place and what
// would be right.
func (c Config) Check() error {
	var p problems
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		p.add("listen", c.Listen, "an address such as 127.0.0.1:8090")
	}
	p.absolute("data_dir", c.DataDir)
	p.absolute("users.homes", c.Users.Homes)
	p.absolute("docker.socket", c.Docker.Socket)
	if c.Users.UIDs.First < 1000 || c.Users.UIDs.Last < c.Users.UIDs.First {
		p.add("users.uids", fmt.Sprintf("%d-%d", c.Users.UIDs.First, c.Users.UIDs.Last), "a range from 1000 on")
	}
	if c.Users.GID < 1 {
		p.add("users.gid", c.Users.GID, "the id of a group that owns nothing on the host, such as 100")
	}
	if c.Local.AtOnce < 1 {
		p.add("local.at_once", c.Local.AtOnce, "1 or more")
	}
	if c.Docker.Instance == "" {
		p.add("docker.instance", "", "a word that tells this service from others on the same engine")
	}
	c.checkHubs(&p)
	return errors.Join(p...)
}

func (c Config) checkHubs(p *problems) {
	if len(c.Hubs) == 0 {
		p.add("hubs", "[]", "at least one hub")
	}
	names := map[string]bool{}
	for i, h := range c.Hubs {
		at := fmt.Sprintf("hubs[%d].", i)
		if h.Name == "" || names[h.Name] {
			p.add(at+"name", h.Name, "a name that no other hub has")
		}
		names[h.Name] = true
		u, err := url.Parse(h.APIURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/hub/api") {
			p.add(at+"api_url", h.APIURL, "the Hub's API address, such as http://127.0.0.1:8081/hub/api")
		}
		if h.Service == "" {
			p.add(at+"service", "", "the name of the Hub service whose access scope users' tokens must hold, such as slipway")
		}
		if why := checkTokenFile(h); why != "" {
			p.add(at+"spawner_token_file", h.SpawnerTokenFile, why)
		}
	}
}

// checkTokenFile says what is wrong with a token's file; empty when nothing is.
func checkTokenFile(h Hub) string {
	info, err := os.Stat(h.SpawnerTokenFile)
	if err != nil {
		return "a file that can be read: " + err.Error()
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Sprintf("a file that only its owner can read (it has mode %04o): chmod 600 it", info.Mode().Perm())
	}
	token, err := h.SpawnerToken()
	if err != nil || len(token.Reveal()) < tokenLength {
		return fmt.Sprintf("a file with at least %d characters: openssl rand -hex 32 makes some", tokenLength)
	}
	return ""
}

// problems gathers what is wrong.
type problems []error

func (p *problems) add(field string, value any, remedy string) {
	*p = append(*p, errs.Bad(field, value, remedy))
}

func (p *problems) absolute(field, path string) {
	if !filepath.IsAbs(path) {
		p.add(field, path, "an absolute path")
	}
}
