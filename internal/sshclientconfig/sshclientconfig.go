// Package sshclientconfig keeps what `slipway ssh login` leaves on a laptop, so that `ssh slipway`, VS Code's
// Remote-SSH, scp and rsync work and nobody edits a configuration:
//
//	~/.ssh/slipway/            a key, its certificate and the host keys of each service; services.json says what is here
//	~/.ssh/config.d/slipway.conf   the Host entries, written anew by each login
//	~/.ssh/config              two lines on top, a mark and an Include; nothing else in it ever changes
//
// Remove takes out exactly what was written. What a service says is checked before it gets into a file that ssh obeys.
package sshclientconfig

import (
	"os"
	"path/filepath"
	"strings"
)

// Config says where the files are.
type Config struct {
	Home    string // the user's home
	Foreign bool   // ssh takes another directory for her home: everything is then named by its whole path
	Windows bool   // names are compared as Windows does
}

// Files are the files of one user. It is for one caller at a time.
type Files struct{ cfg Config }

// New returns the files below cfg.Home, which need not be there yet.
func New(cfg Config) *Files { return &Files{cfg: cfg} }

// Service is one service that the user has logged in to.
type Service struct {
	Name       string   `json:"name"`    // of its Host entry, such as "slipway"
	Address    string   `json:"address"` // of its API
	Host       string   `json:"host"`
	Port       int      `json:"port"`
	User       string   `json:"user"`
	Targets    []string `json:"targets"`     // profiles and sessions with a Host entry of their own: NAME-TARGET
	KnownHosts []string `json:"known_hosts"` // lines as in ssh's known_hosts
}

// Credential is what the user shows: a private key in OpenSSH's format, and its certificate.
type Credential struct {
	Key         []byte
	Certificate string
}

func (f *Files) ssh() string    { return filepath.Join(f.cfg.Home, ".ssh") }
func (f *Files) own() string    { return filepath.Join(f.ssh(), "slipway") }
func (f *Files) parts() string  { return filepath.Join(f.ssh(), "config.d") }
func (f *Files) notes() string  { return filepath.Join(f.own(), "services.json") }
func (f *Files) hosts() string  { return filepath.Join(f.parts(), "slipway.conf") }
func (f *Files) config() string { return filepath.Join(f.ssh(), "config") }

// Key returns the path of a service's private key.
func (f *Files) Key(name string) string { return filepath.Join(f.own(), name) }

// Certificate returns the path of the key's certificate; ssh itself looks there too.
func (f *Files) Certificate(name string) string { return f.Key(name) + "-cert.pub" }

// KnownHosts returns the path of a service's host keys.
func (f *Files) KnownHosts(name string) string { return f.Key(name) + ".known_hosts" }

// write puts text into a file of mode 0600 in one step.
func write(path string, text []byte) error { return replace(path, text, 0o600, nil) }

// replace writes a file beside path and moves it there. owner, unless nil, gives it the owner of the one that was
// there.
func replace(path string, text []byte, mode os.FileMode, owner func(*os.File) error) error {
	t, err := os.CreateTemp(filepath.Dir(path), ".slipway-*")
	if err != nil {
		return err
	}
	defer os.Remove(t.Name())
	_, err = t.Write(text)
	if err == nil && owner != nil {
		err = owner(t)
	}
	if err == nil {
		err = t.Chmod(mode)
	}
	if err == nil {
		err = t.Sync()
	}
	if e := t.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(t.Name(), path)
}

// slashes writes a path as ssh's configuration has it on every system.
func slashes(path string) string { return strings.ReplaceAll(path, `\`, "/") }
