package datacheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/datacheck/rootclient"
)

const (
	probeSize = 256 << 10 // bytes of the file that is written
	probeName = ".slipway-probe-"
	probeLife = 5 * time.Minute // longer than any look lasts
	tidyTime  = 5 * time.Second
)

// probeFile is the name of a new probe file. When and whose it is it says itself, so that a look that was cut off is
// tidied up by a later one.
func (s *element) probeFile() string {
	return fmt.Sprintf("%s%d-%s-%s", probeName, s.Plan.Now.Unix(), rand.Text(), s.user())
}

// left reports whether a probe file is the user's, of a look that is over. Times are those of the service, for all
// sessions have that.
func (s *element) left(name string) bool {
	rest, is := strings.CutPrefix(name, probeName)
	parts := strings.SplitN(rest, "-", 3)
	if !is || len(parts) != 3 || parts[2] != s.user() {
		return false
	}
	at, err := strconv.ParseInt(parts[0], 10, 64)
	return err == nil && s.Plan.Now.Sub(time.Unix(at, 0)) > probeLife
}

func (s *element) user() string { return path.Base("/" + s.Plan.User) }

// write makes a probe file, in the user's own directory if there is one, and gives its path; empty when it is not
// there. None is made where it could not be removed.
func (s *element) write(ctx context.Context) (hubapi.DataCheck, string) {
	check := "writing to storage " + s.Name
	if c, ok := read(s.token); ok && c.onlyCreates() {
		return warn(check, "not tried: the token lets you make files (storage.create) and not remove them (storage.modify): a probe file would stay",
			"none is needed if you only add files; otherwise your administrator adds storage.modify to the scopes of "+
				s.Name), ""
	}
	var last error
	for _, dir := range []string{path.Join(s.Path, s.user()), s.Path} {
		began := time.Now()
		file, err := s.put(ctx, dir)
		switch {
		case err == nil:
			return good(check, "%d KiB in %s in %s, and removed", probeSize>>10, dir, words(time.Since(began))), file
		case file != "":
			return s.stays(file, err), ""
		}
		last = err
		if _, refused := errors.AsType[*rootclient.Refused](err); !refused {
			break
		}
	}
	return fail(check, s.trouble(last), s.remedy(last)), ""
}

// put makes a probe file in a directory where none is left of an earlier look. With an error it gives the path of one
// that may be there and could not be removed.
func (s *element) put(ctx context.Context, dir string) (file string, err error) {
	list, err := s.entries(ctx, dir)
	if err != nil && !errors.Is(err, rootclient.ErrMore) {
		return "", err
	}
	for _, e := range list {
		if name := path.Base(e.Name); s.left(name) {
			if err := s.remove(ctx, path.Join(dir, name)); err != nil {
				return path.Join(dir, name), err
			}
		}
	}
	data := make([]byte, probeSize)
	_, _ = rand.Read(data) // never fails
	file = path.Join(dir, s.probeFile())
	_, err = within(
		ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.way.Write(ctx, s.Origin, file, data) },
	)
	if err == nil {
		return file, nil
	}
	if errors.Is(err, rootclient.ErrHalf) {
		if err := s.remove(context.WithoutCancel(ctx), file); err != nil {
			return file, err
		}
	}
	return "", err
}

// remove takes a probe file away. That it is gone is good, too.
func (s *element) remove(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	err := s.way.Remove(ctx, s.Origin, file)
	if r, refused := errors.AsType[*rootclient.Refused](err); refused && r.Code == rootclient.NotFound {
		return nil
	}
	return err
}

// stays is the finding of a probe file that may be there still.
func (s *element) stays(file string, err error) hubapi.DataCheck {
	return fail("writing to storage "+s.Name, "the probe file "+file+" could not be removed: "+s.trouble(err),
		"a later look removes it, or you do; storage.modify is the scope that lets you")
}
