package datacheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"syscall"
	"time"

	"slipway/hubapi"
	"slipway/internal/datacheck/rootclient"
	"slipway/internal/secret"
)

const (
	readSize = 4 << 20 // bytes at the most, of a file that is there
	looks    = 6       // directories that are listed to find one
)

// errTape is why a file that is there is not read.
var errTape = errors.New(
	"there is no file to read on its disks: the files that were seen are on tape, and a look has none called back",
)

// element is a look at one storage element.
type element struct {
	*doctor
	hubapi.DataElement
	way   Storage
	token secret.Text // to show
}

// storage lists a storage element, writes there where that may be done, and reads there and through its cache.
func (d *doctor) storage(ctx context.Context, e hubapi.DataElement) []hubapi.DataCheck {
	var token secret.Text
	if e.Token != "" {
		token, _, _ = d.token(e.Token) // the tokens' check says what is wrong with it
	}
	s := &element{d, e, d.Storage(token), token}
	list, listed := s.list(ctx)
	out := []hubapi.DataCheck{listed}
	if listed.Result != hubapi.CheckOK {
		return append(out, s.cacheAlone(ctx)...)
	}
	if list == nil { // by a program of the image
		return out
	}
	if e.Write {
		found, file := s.write(ctx)
		if file != "" {
			reads := s.read(ctx, file, "the probe file")
			if err := s.remove(context.WithoutCancel(ctx), file); err != nil {
				found = s.stays(file, err)
			}
			return append(append(out, found), reads...)
		}
		out = append(out, found)
	}
	file, err := s.some(ctx, list)
	if file == "" {
		why := "there is no file to read"
		if err != nil {
			why = s.trouble(err)
		}
		return append(out, warn("reading storage "+e.Name, why, ""))
	}
	return append(out, s.read(ctx, file, "a file that is there")...)
}

// list lists the element's directory.
func (s *element) list(ctx context.Context) ([]rootclient.Entry, hubapi.DataCheck) {
	check := "storage " + s.Name
	began := time.Now()
	list, err := s.entries(ctx, s.Path)
	number := fmt.Sprintf("%d entries", len(list))
	if len(list) == 1 {
		number = "1 entry"
	}
	switch {
	case errors.Is(err, rootclient.ErrOther):
		return nil, s.listByProgram(ctx, check)
	case errors.Is(err, rootclient.ErrMore):
		number = "more than " + number
	case err != nil:
		return nil, fail(check, s.trouble(err), s.remedy(err))
	}
	if list == nil {
		list = []rootclient.Entry{}
	}
	return list, good(check, "%s lists %s in %s", s.Path, number, words(time.Since(began)))
}

func (s *element) entries(ctx context.Context, dir string) ([]rootclient.Entry, error) {
	return within(ctx, func(ctx context.Context) ([]rootclient.Entry, error) { return s.way.List(ctx, s.Origin, dir) })
}

// listByProgram is for servers that want to be shown a proxy, which the doctor itself cannot do.
func (s *element) listByProgram(ctx context.Context, check string) hubapi.DataCheck {
	if s.List == nil {
		return warn(
			check, "it takes proxies and no tokens: without xrdfs in this image that cannot be tried",
			"an image with XRootD's client has xrdfs",
		)
	}
	began := time.Now()
	_, err := within(
		ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.List(ctx, s.Origin, s.Path) },
	)
	if err != nil {
		return fail(check, "xrdfs of this image: "+plainWords(err.Error()), newProxy)
	}
	return good(
		check, "%s lists in %s, by xrdfs of this image: it takes proxies and no tokens", s.Path,
		words(time.Since(began)),
	)
}

// some finds a file in the first directories.
func (s *element) some(ctx context.Context, list []rootclient.Entry) (string, error) {
	dirs, at := []string{}, s.Path
	var last error
	for n := 1; ; n++ {
		for _, e := range list {
			switch file := path.Join(at, path.Base(e.Name)); {
			case e.Dir:
				dirs = append(dirs, file)
			case e.Offline:
				last = errTape
			case e.Size != 0:
				return file, nil
			}
		}
		if len(dirs) == 0 || n == looks {
			return "", last
		}
		at, dirs = dirs[0], dirs[1:]
		var err error
		if list, err = s.entries(ctx, at); err != nil && !errors.Is(err, rootclient.ErrMore) {
			last = err
		}
	}
}

// read reads a file at the origin, and twice through the cache.
func (s *element) read(ctx context.Context, file, what string) []hubapi.DataCheck {
	out := []hubapi.DataCheck{}
	check := "reading storage " + s.Name
	if said, err := s.timed(ctx, s.Origin, file); err != nil {
		out = append(out, fail(check, s.trouble(err), s.remedy(err)))
	} else {
		out = append(out, good(check, "%s: %s", what, said))
	}
	if s.Cache == "" {
		return out
	}
	check = "cache of storage " + s.Name
	cold, err := s.timed(ctx, s.Cache, file)
	warm := ""
	if err == nil {
		warm, err = s.timed(ctx, s.Cache, file)
	}
	if err != nil {
		return append(out, s.badCache(err))
	}
	return append(out, good(check, "%s: first %s, again %s", what, cold, warm))
}

func (s *element) badCache(err error) hubapi.DataCheck {
	return warn("cache of storage "+s.Name, s.trouble(err), "reads go to the origin meanwhile (`slipway data url`), and are slower")
}

// cacheAlone looks whether the cache answers when the origin cannot be used.
func (s *element) cacheAlone(ctx context.Context) []hubapi.DataCheck {
	if s.Cache == "" || s.CacheUp {
		return nil
	}
	return []hubapi.DataCheck{s.badCache(errors.New("the service finds that it does not answer: " + s.Trouble))}
}

// timed reads a file and says how fast that was, the connection and the login included.
func (s *element) timed(ctx context.Context, server, file string) (string, error) {
	began := time.Now()
	n, err := within(ctx, func(ctx context.Context) (int, error) { return s.way.Read(ctx, server, file, readSize) })
	took := time.Since(began)
	return fmt.Sprintf("%d KiB in %s (%.1f MB/s)", (n+1023)>>10, words(took), float64(n)/1e6/took.Seconds()), err
}

func within[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, oneDeadline)
	defer cancel()
	return do(ctx)
}

// trouble says what an error means.
func (s *element) trouble(err error) string {
	r, refused := errors.AsType[*rootclient.Refused](err)
	switch {
	case refused && r.Code == rootclient.NotAuthorized:
		return "it does not let you: " + plainWords(r.Error())
	case refused && r.Code == rootclient.AuthFailed:
		return "it does not take the token: " + plainWords(r.Error())
	case refused:
		return "it refuses: " + plainWords(r.Error())
	case errors.Is(err, rootclient.ErrNoToken):
		return "it asks for a token, and you have none here"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at " + dialed(err)
	}
	return plainWords(err.Error())
}

// dialed is the address that a connection was to go to.
func dialed(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		return op.Addr.String()
	}
	return "its address"
}

// remedy says what to do about it.
func (s *element) remedy(err error) string {
	r, refused := errors.AsType[*rootclient.Refused](err)
	switch {
	case errors.Is(err, rootclient.ErrNoToken), refused && r.Code == rootclient.AuthFailed:
		return anew
	case refused && r.Code == rootclient.NotAuthorized && !s.token.Empty():
		return "see what its token is for and what scopes it has: `slipway credentials`; the storage's own administrator knows who may do what there"
	case refused:
		return "the storage's administrator knows who may do what there"
	case errors.Is(err, syscall.ECONNREFUSED) && strings.HasPrefix(dialed(err), "127."):
		return "a session or job has a 127.0.0.1 of its own: your administrator gives the storage an address that they reach"
	}
	return "look again in a minute, and tell your administrator if it stays so"
}
