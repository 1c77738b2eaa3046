package credentials

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/oidc"
	"slipway/internal/secret"
)

// Store keeps records; internal/store has it. What Put has taken outlives a crash of the host once Sync has returned.
type Store interface {
	Put(ctx context.Context, bucket, key string, value any) error
	Delete(ctx context.Context, bucket, key string) error
	All(ctx context.Context, bucket string) iter.Seq2[Record, error]
	Sync(ctx context.Context) error
}

// Record is one key and its JSON value.
type Record = struct {
	Key   string
	Value json.RawMessage
}

// Sealer makes secrets fit to lie in the store; secret.Box has it.
type Sealer interface {
	Seal(plain []byte, purpose string) []byte
	Open(sealed []byte, purpose string) ([]byte, error)
	Derive(purpose string) []byte
}

// Issuer is what is needed of one; issuer.Client has it.
type Issuer interface {
	URL() string
	Offers(ctx context.Context) (oidc.Offers, error)
	Refresh(ctx context.Context, refresh secret.Text) (oidc.Tokens, error)
	Exchange(ctx context.Context, access secret.Text, audience string, scopes []string) (oidc.Tokens, error)
	Check(ctx context.Context, t oidc.Tokens, want oidc.Want) (oidc.Facts, error)
	Revoke(ctx context.Context, refresh secret.Text) error
	BeginDevice(ctx context.Context) (oidc.Device, error)
	AwaitDevice(ctx context.Context, d oidc.Device) (oidc.Tokens, error)
}

// Source is an issuer of the configuration.
type Source struct {
	Name   string
	Issuer Issuer
	Hub    bool // the Hub has its users' refresh tokens
}

// Element is a storage element that takes the tokens of an issuer: workloads get one that is for it alone, where the
// issuer can make it.
type Element struct {
	Name, Issuer string
	Audience     string
	Scopes       []string
}

// Config is what a Manager needs.
type Config struct {
	Store    Store
	Sealer   Sealer
	Sources  []Source // the first that a user has a token of gives her main one
	Elements []Element
	// Hub returns the refresh token of an issuer that a user's Hub has for her, empty when it has none. Nil: no Hub is
	// asked.
	Hub func(ctx context.Context, principal, issuer string) (secret.Text, error)
	// Proxy returns what may be shown of a proxy, and the proxy as workloads are to have it, or says what is wrong with
	// it. Nil: none are taken.
	Proxy func(ctx context.Context, pem secret.Text) (Entry, secret.Text, error)
	// Whose says by which rule of the site's a credential is a user's, empty where there is no rule for its kind; an
	// error refuses it to her. It does not wait. Nil: there are no rules.
	Whose  func(principal string, h Holder) (by string, err error)
	Logger *slog.Logger
}

// callsAtOnce is how many users' tokens of one issuer are refreshed at the same time.
const callsAtOnce = 8

// Manager has every user's credentials. It is safe for concurrent use.
type Manager struct {
	cfg    Config
	log    *slog.Logger
	mark   []byte // the key of what is kept of the Hub's tokens to know them again
	born   time.Time
	slots  map[string]chan struct{} // by issuer: who asks it
	wake   chan struct{}
	tokens map[string]Source

	mu      sync.Mutex // guards all below
	records map[key]record
	flights map[key]*flight
	watches map[string]map[chan struct{}]bool
	grants  map[string]*grant
	stats   map[[2]string]int
}

// key names a credential.
type key struct{ principal, name string }

func (k key) text() string { return k.name + " " + k.principal } // a name has no space

// New makes a Manager over the records in the store.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	w := &Manager{
		cfg: cfg, log: cfg.Logger, mark: cfg.Sealer.Derive("wallet: the Hub's tokens"), born: time.Now(),
		slots: map[string]chan struct{}{},
		wake:  make(chan struct{}, 1), tokens: map[string]Source{}, records: map[key]record{},
		flights: map[key]*flight{},
		watches: map[string]map[chan struct{}]bool{}, grants: map[string]*grant{}, stats: map[[2]string]int{},
	}
	for _, s := range cfg.Sources {
		w.tokens[s.Name], w.slots[s.Name] = s, make(chan struct{}, callsAtOnce)
	}
	for r, err := range recordsOf(ctx, cfg.Store) {
		if err != nil {
			return nil, err
		}
		w.records[r.key()] = r
	}
	return w, nil
}

// Issuers returns the names of the issuers in the configuration.
func (w *Manager) Issuers() []string {
	var names []string
	for _, s := range w.cfg.Sources {
		names = append(names, s.Name)
	}
	return names
}

// Proxies reports whether proxies are taken.
func (w *Manager) Proxies() bool { return w.cfg.Proxy != nil }

// List returns what may be shown of a user's credentials: tokens in the order of the configuration, then the rest.
func (w *Manager) List(_ context.Context, principal string) ([]Entry, error) {
	now := time.Now()
	var list []Entry
	for _, r := range w.of(principal) {
		list = append(list, w.entry(r, now))
	}
	return list, nil
}

// Principals returns those who have any credential.
func (w *Manager) Principals() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for k, r := range w.records {
		if !r.Removed && !slices.Contains(list, k.principal) {
			list = append(list, k.principal)
		}
	}
	slices.Sort(list)
	return list
}

// of returns a user's records.
func (w *Manager) of(principal string) []record {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []record
	for k, r := range w.records {
		if k.principal == principal && !r.Removed {
			list = append(list, r)
		}
	}
	rank := func(r record) int {
		i := slices.IndexFunc(w.cfg.Sources, func(s Source) bool { return s.Name == r.Name })
		if i < 0 {
			return len(w.cfg.Sources)
		}
		return i
	}
	slices.SortFunc(list, func(a, b record) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

// find returns a record that is there.
func (w *Manager) find(k key) (record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.records[k]
	if !ok || r.Removed {
		return record{}, errs.New(errs.NotFound, "there is no credential %q", k.name).
			With("slipway credentials lists those that there are")
	}
	return r, nil
}

// Watch tells, by its channel, that a user's credentials have changed; several changes may be told as one. While
// somebody watches they are kept fresh.
func (w *Manager) Watch(principal string) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watches[principal] == nil {
		w.watches[principal] = map[chan struct{}]bool{}
	}
	w.watches[principal][c] = true
	w.stir()
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.watches[principal], c); len(w.watches[principal]) == 0 {
			delete(w.watches, principal)
		}
	}
}

// stir has Run look again.
func (w *Manager) stir() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take makes a record the one in force, and tells who watches.
func (w *Manager) take(r record, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records[r.key()] = r; gone {
		delete(w.records, r.key())
	}
	for c := range w.watches[r.Principal] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	w.stir()
}

// flight lets one at a time work on a credential.
type flight struct {
	turn    chan struct{}
	waiting int
}

// enter waits for the turn to work on a credential, and gives the function that ends it.
func (w *Manager) enter(ctx context.Context, k key) (leave func(), err error) {
	w.mu.Lock()
	f := w.flights[k]
	if f == nil {
		f = &flight{turn: make(chan struct{}, 1)}
		w.flights[k] = f
	}
	f.waiting++
	w.mu.Unlock()
	done := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if f.waiting--; f.waiting == 0 {
			delete(w.flights, k)
		}
	}
	select {
	case f.turn <- struct{}{}:
		return func() { <-f.turn; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}
