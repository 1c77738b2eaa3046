// Package setup writes the first configuration of a site: a minimal slipway.yaml, the two tokens that the service and
// its Hub share, and what the Hub's own configuration has to load.
//
// It makes files that are not there, and must not change one that is. Where the Hub runs as another user than root, its
// files are that user's.
package setup

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"text/template"

	"slipway/internal/config"
	"slipway/internal/errs"
)

// Site is what the files say of a site.
type Site struct {
	HubAPI          string   // the Hub's REST API, as the service's host reaches it
	Admins          []string // users of the Hub who are administrators
	Image           string   // of notebook sessions
	Listen          string   // where the Hub reaches the service
	TLSCert, TLSKey string   // of the service; empty: plain HTTP
	AllowPlainHTTP  bool     // also to other hosts
}

// Address returns where the Hub reaches the service: by this host's name, where the service listens at all addresses.
func (s Site) Address() (string, error) {
	scheme := "http"
	if s.TLSCert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil || (host != "" && !net.ParseIP(host).IsUnspecified()) {
		return scheme + "://" + s.Listen, nil // what is wrong with it, the check of the configuration says
	}
	name, err := os.Hostname()
	return scheme + "://" + net.JoinHostPort(name, port), err
}

// Default is a site whose Hub runs on the service's host, with the ports that JupyterHub has by itself.
func Default() Site {
	return Site{
		HubAPI: "http://127.0.0.1:8081/hub/api", Admins: []string{"admin"}, Image: "slipway/notebook:1",
		Listen: config.Default().Listen,
	}
}

// Files are those of a site, by their paths.
type Files struct {
	Config                     string // slipway.yaml
	SpawnerToken, ServiceToken string // kept when they are there: the Hub may have them already
	Hub                        string // a part of the Hub's configuration
	HubUser                    string // who reads the tokens and the Hub's part; empty: root
}

// Below returns the files beside a configuration of that path. What the Hub reads is in a directory of its own where it
// runs as another user than root: that of the configuration is for root alone.
func Below(path, hubUser string) Files {
	dir := filepath.Dir(path)
	if hubUser != "" {
		dir += "-hub"
	}
	return Files{
		Config: path, SpawnerToken: filepath.Join(dir, "spawner.token"),
		ServiceToken: filepath.Join(dir, "service.token"), Hub: filepath.Join(dir, "jupyterhub_slipway.py"),
		HubUser: hubUser,
	}
}

//go:embed slipway.yaml.tmpl jupyterhub_slipway.py.tmpl
var templates embed.FS

// Write makes the files. The configuration is checked before it has its name, so there is a good one or none.
func Write(f Files, site Site) error {
	for _, path := range []string{f.Config, f.Hub} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return errs.New(errs.Conflict, "%s is there already", path).
				With("edit it, or move it away to begin anew")
		}
	}
	hubOwner, err := ownerOf(f.HubUser)
	if err != nil {
		return err
	}
	if err := makeDirectories(f, hubOwner); err != nil {
		return err
	}
	for _, path := range []string{f.SpawnerToken, f.ServiceToken} {
		if err := makeToken(path, hubOwner); err != nil {
			return err
		}
	}
	text, err := fill("slipway.yaml.tmpl", f, site)
	if err != nil {
		return err
	}
	if _, err := config.Read(text, f.Config); err != nil {
		return err
	}
	hub, err := fill("jupyterhub_slipway.py.tmpl", f, site)
	if err != nil {
		return err
	}
	// The configuration comes last: where it is, all is.
	return errors.Join(create(f.Hub, hub, 0o644, hubOwner), create(f.Config, text, 0o600, self))
}

// owner is a user with the user's own group.
type owner struct{ uid, gid int }

// self is who runs this program.
var self = owner{-1, -1}

func ownerOf(name string) (owner, error) {
	if name == "" {
		return self, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return self, errs.New(errs.Invalid, "find the Hub's user: %w", err).
			With("name the account of this host that JupyterHub runs as: `User=` in its unit")
	}
	uid, err := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return owner{uid, gid}, errors.Join(err, err2)
}

// makeDirectories makes those that the files lie in, each for its reader alone.
func makeDirectories(f Files, hubOwner owner) error {
	if err := os.MkdirAll(filepath.Dir(f.Config), 0o700); err != nil {
		return fmt.Errorf("make the directory of the configuration: %w", err)
	}
	hubDir := filepath.Dir(f.Hub)
	if hubDir == filepath.Dir(f.Config) {
		return nil
	}
	err := os.Mkdir(hubDir, 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = os.Chown(hubDir, hubOwner.uid, hubOwner.gid)
	}
	if err != nil {
		return fmt.Errorf("make the directory of the Hub's files: %w", err)
	}
	return nil
}

func fill(name string, f Files, site Site) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{"quoted": strconv.Quote, "list": list}).ParseFS(templates, name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, struct {
		Files
		Site
	}{f, site})
	return out.Bytes(), err
}

// list is a list of YAML.
func list(words []string) (string, error) {
	if len(words) == 0 {
		return "[]", nil
	}
	text, err := json.Marshal(words)
	return string(text), err
}

// makeToken makes a file with a secret, unless there is one. No other user can read it at any moment.
func makeToken(path string, by owner) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	return create(path, []byte(hex.EncodeToString(secret)+"\n"), 0o600, by)
}

// create makes a file that is there whole or not at all, and takes no other's place.
func create(path string, text []byte, mode fs.FileMode, by owner) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Chown(by.uid, by.gid), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return os.Link(f.Name(), path)
}
