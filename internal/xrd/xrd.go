// Package xrd knows the site's storage elements, which speak XRootD: how what a user calls her data becomes the URL
// that is right here and now, and which of the caches in front of them answer.
//
// Promises: whoever reads is sent to a cache only while it answers, and otherwise to the origin; whoever writes is
// always sent to the origin; a name never leaves the directory of its element, and nothing that it says becomes a
// parameter of a URL. A question is answered at once: caches are looked at in the background, by Run.
//
// It must not decide who may read or write what: the storage does that, by the user's own credentials, which are not
// seen here.
package xrd

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Element is a storage element.
type Element struct {
	Name   string
	Origin string // root[s]://host:port
	Path   string // the directory there below which everything lies
	Cache  string // empty: there is none
	Mount  bool   // sessions on this host see it as a directory
	Write  bool   // anybody may write there
}

// Root is where sessions see the mounted elements: each by its name, and what its cache has of it by that and
// CachedSuffix.
const (
	Root         = "/storage"
	CachedSuffix = ".cached"
)

// Config is what a Storage needs to know.
type Config struct {
	Elements []Element
	Every    time.Duration // between two looks at a cache. Zero: 10 s
	Patience time.Duration // that a cache has to answer. Zero: 3 s
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	Logger   *slog.Logger
}

// Storage is the site's storage elements.
type Storage struct {
	cfg Config

	mu     sync.RWMutex // guards states
	states map[string]State
}

// State is what is known of a cache.
type State struct {
	Up      bool
	Trouble string // why not, in words; empty also while nothing is known yet
	Since   time.Time
}

// New makes a Storage. Its caches are not used before Run has seen them answer.
func New(cfg Config) *Storage {
	if cfg.Every == 0 {
		cfg.Every = 10 * time.Second
	}
	if cfg.Patience == 0 {
		cfg.Patience = 3 * time.Second
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Storage{cfg: cfg, states: map[string]State{}}
}

// Elements lists the elements as they are configured.
func (s *Storage) Elements() []Element { return s.cfg.Elements }

// Cache returns what is known of an element's cache.
func (s *Storage) Cache(e Element) State {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.states[e.Cache]
}
