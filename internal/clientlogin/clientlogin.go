// Package clientlogin keeps the logins of a computer's user at services: one a service, in one file that only the user
// can read. It promises that a change replaces the file as a whole, and that a file that others can read is refused.
// It must not speak to a service.
package clientlogin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"slipway/internal/errs"
)

// Login is a login at a service.
type Login struct {
	URL     string    `json:"url"` // of the service
	Token   string    `json:"token"`
	ID      string    `json:"id"` // of the token
	User    string    `json:"user"`
	Hub     string    `json:"hub"`
	Expires time.Time `json:"expires"`
}

// String hides the token.
func (l Login) String() string { return "[login at " + l.URL + "]" }

// GoString hides it.
func (l Login) GoString() string { return l.String() }

// File is the file with a user's logins, the latest first.
type File struct{ path string }

// In returns the file in a user's directory of settings.
func In(settings string) File { return File{filepath.Join(settings, "slipway", "logins.json")} }

// Path is where the file is.
func (f File) Path() string { return f.path }

// Find returns the login at the service of a URL; where that is empty, the latest. false: there is none.
func (f File) Find(url string) (Login, bool, error) {
	all, err := f.read()
	if err != nil {
		return Login{}, false, err
	}
	at := slices.IndexFunc(all, func(l Login) bool { return url == "" || l.URL == url })
	if at < 0 {
		return Login{}, false, nil
	}
	return all[at], true, nil
}

// Keep keeps a login, in place of one at the same service.
func (f File) Keep(l Login) error {
	all, err := f.read()
	if err != nil {
		return err
	}
	return f.write(append([]Login{l}, without(all, l.URL)...))
}

// Remove takes the login at a service out.
func (f File) Remove(url string) error {
	all, err := f.read()
	if err != nil {
		return err
	}
	return f.write(without(all, url))
}

func without(all []Login, url string) []Login {
	return slices.DeleteFunc(all, func(l Login) bool { return l.URL == url })
}

func (f File) read() ([]Login, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read your logins: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, errs.New(
			errs.Invalid, "%s has mode %04o: others can read your logins", f.path, info.Mode().Perm(),
		).With("run `chmod 600` on it; revoke the logins on the page Credentials of your Hub's Slipway if they may be known")
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("read your logins: %w", err)
	}
	var all []Login
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, errs.New(errs.Invalid, "%s holds no logins: %v", f.path, err).
			With("remove the file, and log in again with `slipway login`")
	}
	return all, nil
}

func (f File) write(all []Login) error {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep your logins: %w", err)
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, ".logins-*") // which only its owner can read
	if err != nil {
		return fmt.Errorf("keep your logins: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = file.Write(append(b, '\n'))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("keep your logins: %w", err)
	}
	if err := os.Rename(file.Name(), f.path); err != nil {
		return fmt.Errorf("keep your logins: %w", err)
	}
	return nil
}
