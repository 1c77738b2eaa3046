package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// credentials writes the tokens and the proxy of the workload's user where its programs look for them. A program sees a
// file of before or one of after, never a part. What the user herself has put there is left until the service brings
// something new of that name, or she puts or renews that credential; what she has taken away comes back when anything
// is brought.
type credentials struct {
	dir   string
	usual string // where there is a link to the proxy while there is one
	log   *slog.Logger

	mu    sync.Mutex
	given map[string][sha256.Size]byte // what the service has last brought
}

func newCredentials(cfg Config) *credentials {
	return &credentials{
		dir: cfg.TokensDir, usual: cfg.UsualProxy, log: cfg.Logger, given: map[string][sha256.Size]byte{},
	}
}

// proxyIn returns the proxy's file in a directory of credentials.
func proxyIn(dir string) string { return filepath.Join(dir, filepath.Base(control.ProxyFile)) }

// put answers a request with all that there is to be.
func (c *credentials) put(r *http.Request) error {
	var all control.Credentials
	if err := json.NewDecoder(io.LimitReader(r.Body, control.MaxCredentials)).Decode(&all); err != nil {
		// The decoder's words may hold a part of them.
		return errs.New(errs.Invalid, "read the credentials: they are too large, or no JSON")
	}
	if err := all.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := os.Mkdir(c.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the directory of the credentials: %w", err)
	}
	named := map[string]bool{}
	for _, f := range all.Files {
		named[f.Name] = true
		if err := c.write(f); err != nil {
			return noSpace(f.Name, err)
		}
	}
	err := c.removeBut(named)
	c.point()
	return err
}

// write writes one file, unless that is what was brought before and the user has not taken it away.
func (c *credentials) write(f control.Credential) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", f.Mark, []byte(f.Data)))
	if _, err := os.Lstat(filepath.Join(c.dir, f.Name)); err == nil && c.given[f.Name] == sum {
		return nil
	}
	part, err := os.CreateTemp(c.dir, control.TempPrefix) // its mode is 0600
	if err != nil {
		return err
	}
	_, err = part.WriteString(string(f.Data))
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), filepath.Join(c.dir, f.Name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	c.given[f.Name] = sum
	return nil
}

// removeBut takes away what was brought and is not named any more.
func (c *credentials) removeBut(named map[string]bool) error {
	for name := range c.given {
		if named[name] {
			continue
		}
		if err := os.Remove(filepath.Join(c.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("take a credential away: %w", err)
		}
		delete(c.given, name)
	}
	return nil
}

// point keeps a link to the proxy at the usual place while there is a proxy: programs that were started before it came
// find it there. That there can be none keeps nobody from the proxy itself.
func (c *credentials) point() {
	file := proxyIn(c.dir)
	_, err := os.Stat(file)
	if err == nil {
		err = c.link(file)
	} else if to, _ := os.Readlink(c.usual); to == file {
		err = os.Remove(c.usual)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("the usual place of a proxy does not lead to the user's", "path", c.usual, "error", err)
	}
}

// link makes that link. What else lies there is the user's own and stays, but for a copy of the proxy itself: it was
// put from there, and would not be renewed.
func (c *credentials) link(file string) error {
	err := os.Symlink(file, c.usual)
	if !errors.Is(err, fs.ErrExist) || !sameText(c.usual, file) {
		return ignore(err, fs.ErrExist)
	}
	next := c.usual + ".new"
	if err := errors.Join(ignore(os.Remove(next), fs.ErrNotExist), os.Symlink(file, next)); err != nil {
		return err
	}
	return os.Rename(next, c.usual)
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// sameText reports whether a path is a plain file of its own with the text of another.
func sameText(path, other string) bool {
	a, err := os.Lstat(path)
	b, err2 := os.Lstat(other)
	if err != nil || err2 != nil || !a.Mode().IsRegular() || !b.Mode().IsRegular() || a.Size() != b.Size() ||
		os.SameFile(a, b) {
		return false
	}
	have, err := os.ReadFile(path)
	want, err2 := os.ReadFile(other)
	return err == nil && err2 == nil && bytes.Equal(have, want)
}

// end takes all away.
func (c *credentials) end() {
	_ = os.RemoveAll(c.dir)
	c.point()
}
