package sshclientconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"slipway/internal/errs"
)

// notes are what services.json holds.
type notes struct {
	Services []Service `json:"services"`
	Made     []string  `json:"made"` // of .ssh, config and config.d: those that there were not before
}

// Services returns the services that the user has logged in to.
func (f *Files) Services() ([]Service, error) {
	n, err := f.read()
	return n.Services, err
}

func (f *Files) read() (notes, error) {
	var n notes
	text, err := os.ReadFile(f.notes())
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return n, errs.New(errs.Conflict, "read what was written here before: %w", err).
			With("remove " + f.own() + " and log in again")
	}
	return n, nil
}

func (f *Files) save(n notes) error {
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return write(f.notes(), append(text, '\n'))
}

// Keep writes all that reaches a service. A service of the same name and another address is not replaced.
func (f *Files) Keep(s Service, c Credential) (Included, error) {
	hosts, err := f.refused(s)
	if err != nil {
		return Included{}, err
	}
	certificate, err := c.checked()
	if err != nil {
		return Included{}, err
	}
	n, err := f.read()
	if err != nil {
		return Included{}, err
	}
	if n.Services, err = with(n.Services, s); err != nil {
		return Included{}, err
	}
	in, err := f.write(
		&n, map[string][]byte{f.Key(s.Name): c.Key, f.Certificate(s.Name): certificate, f.KnownHosts(s.Name): hosts},
	)
	if err != nil {
		return in, fmt.Errorf("write ssh's files: %w", err)
	}
	return in, nil
}

// refused looks at what the service says, and gives its host keys as they are written.
func (f *Files) refused(s Service) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if strings.ContainsAny(f.cfg.Home, "\"\r\n") {
		return nil, errs.Bad("home", f.cfg.Home, "ssh's configuration cannot hold this path")
	}
	if text, err := os.ReadFile(f.hosts()); err == nil && !bytes.HasPrefix(text, []byte(header)) {
		return nil, errs.New(errs.Conflict, "%s was not written by slipway", f.hosts()).
			With("rename it, and log in again")
	}
	return knownHosts(s.KnownHosts)
}

// with returns the services with s among them.
func with(list []Service, s Service) ([]Service, error) {
	at := slices.IndexFunc(list, func(o Service) bool { return o.Name == s.Name })
	if at < 0 {
		return append(list, s), nil
	}
	if list[at].Address != s.Address {
		return nil, errs.New(errs.Conflict, "%q is %s here", s.Name, list[at].Address).
			With("give this service another name by --name, or forget the other by `slipway ssh logout --name " + s.Name + "`")
	}
	list[at] = s
	return list, nil
}

// write puts everything in place: notes first, so that what follows is found again, and the user's own file last.
func (f *Files) write(n *notes, own map[string][]byte) (Included, error) {
	for _, dir := range []string{f.ssh(), f.own(), f.parts()} {
		err := os.Mkdir(dir, 0o700)
		if err == nil && dir != f.own() {
			n.Made = append(n.Made, dir)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return Included{}, err
		}
	}
	err := errors.Join(os.Chmod(f.own(), 0o700), f.save(*n))
	for path, text := range own {
		err = errors.Join(err, write(path, text))
	}
	if err = errors.Join(err, write(f.hosts(), f.blocks(n.Services))); err != nil {
		return Included{}, err
	}
	in, made, err := f.join()
	if made && err == nil {
		n.Made = append(n.Made, f.config())
		err = f.save(*n)
	}
	return in, err
}

func (f *Files) blocks(list []Service) []byte {
	var b strings.Builder
	b.WriteString(header)
	for _, s := range list {
		b.WriteString("\n" + f.Block(s))
	}
	return []byte(b.String())
}

// Remove takes out what was written for the service of that name; with the last one everything goes. It gives the
// service.
func (f *Files) Remove(name string) (Service, error) {
	n, err := f.read()
	if err != nil {
		return Service{}, err
	}
	at := slices.IndexFunc(n.Services, func(s Service) bool { return s.Name == name })
	if at < 0 {
		return Service{}, errs.New(errs.NotFound, "there is no login %q here", name).With("`slipway ssh status` shows which there are")
	}
	gone := n.Services[at]
	n.Services = slices.Delete(n.Services, at, at+1)
	if len(n.Services) > 0 {
		err = write(f.hosts(), f.blocks(n.Services))
	} else {
		err = f.last(n.Made)
	}
	for _, path := range []string{f.Key(name), f.Certificate(name), f.KnownHosts(name)} {
		err = errors.Join(err, without(path))
	}
	switch {
	case err != nil:
	case len(n.Services) > 0:
		err = f.save(n)
	default:
		err = f.clear(n.Made)
	}
	if err != nil {
		return gone, fmt.Errorf("take out ssh's files: %w", err)
	}
	return gone, nil
}

// last takes out what serves all services: the Include first, that ssh never misses what it includes.
func (f *Files) last(made []string) error {
	if err := f.part(slices.Contains(made, f.config())); err != nil {
		return fmt.Errorf(
			"%s: %w; take out the line %q by hand, and log out again", f.config(), err, f.include().line(),
		)
	}
	return without(f.hosts())
}

// clear removes the notes and the directories that were made, unless somebody has put something else in there.
func (f *Files) clear(made []string) error {
	if err := without(f.notes()); err != nil {
		return err
	}
	for _, dir := range []string{f.own(), f.parts(), f.ssh()} {
		if dir == f.own() || slices.Contains(made, dir) {
			_ = os.Remove(dir) // it stays where it is not empty
		}
	}
	return nil
}

// without removes a file that may not be there.
func without(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
