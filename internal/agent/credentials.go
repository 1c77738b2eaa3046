package agent

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// credentials writes the tokens and the proxy of the workload's user where its programs look for them. A program sees a file of before or one
// of after, never a part. What the user herself has put there is left until the service brings something new of that name.
type credentials struct {
	dir string

	mu    sync.Mutex
	given map[string][sha256.Size]byte // what the service has last brought
}

func newCredentials(dir string) *credentials {
	return &credentials{dir: dir, given: map[string][sha256.Size]byte{}}
}

// put answers a request with all that there is to be.
func (c *credentials) put(r *http.Request) error {
	var all control.Credentials
	if err := json.NewDecoder(io.LimitReader(r.Body, control.MaxCredentials)).Decode(&all); err != nil {
		return errs.New(errs.Invalid, "read the credentials: they are too large, or no JSON") // the decoder's words may hold a part of them
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
	return c.removeBut(named)
}

// write writes one file, unless that is what was brought before.
func (c *credentials) write(f control.Credential) error {
	sum := sha256.Sum256([]byte(f.Data))
	if c.given[f.Name] == sum {
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

// end takes all away.
func (c *credentials) end() { _ = os.RemoveAll(c.dir) }
