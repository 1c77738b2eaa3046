// Package sshauth knows who may come in by ssh: by a public key that a user has registered, by a certificate of the
// service's own authority, or by a login that she confirms in her browser. It keeps the host keys too, by which users
// know the service.
//
// Promises: a key or certificate of one user never opens another's sessions, whatever login name is given with it, and
// a public key that somebody else has added too draws nobody into his; what is taken away is told to those who hold
// connections open by it; private key material of users is refused and never kept or logged; files that are damaged are
// refused and never overwritten. The package must not know of connections or sessions.
package sshauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/devicelogin"
	"slipway/internal/errs"
)

// The buckets of the store.
const (
	keysBucket         = "ssh-keys"
	certificatesBucket = "ssh-certificates"
)

// AnySession in a Pass stands for all of its owner's sessions.
const AnySession = "*"

// Owner is a user of a hub.
type Owner = devicelogin.Owner

// Pass is what lets somebody in.
type Pass struct {
	Owner   Owner
	Key     string    // the fingerprint of the key that was proved; empty: a login in the browser
	Serial  uint64    // of a certificate; 0: of none
	Session string    // the name of the only server that it opens; AnySession: all
	Expires time.Time // zero: never
}

// record is an entry of the store, as package store has it.
type record = struct {
	Key   string
	Value json.RawMessage
}

// Store is what the authority needs of store.Store.
type Store interface {
	Put(ctx context.Context, bucket, key string, value any) error
	Delete(ctx context.Context, bucket, key string) error
	All(ctx context.Context, bucket string) iter.Seq2[record, error]
	Sync(ctx context.Context) error
}

// Config is what an Authority needs.
type Config struct {
	Store       Store
	Dir         string        // of the files with host keys and authorities; it is made where there is none
	Host        string        // the name that users type
	Port        int           // likewise
	Certificate time.Duration // how long certificates are good; zero: 12 h
	Hubs        []Hub         // whose users may come in; of those of one person the first counts
	Logins      *devicelogin.Logins
	Logger      *slog.Logger
}

// Authority knows who may come in. It is safe for concurrent use.
type Authority struct {
	cfg   Config
	files keyring

	missing map[Owner]missing // Follow's alone

	change sync.Mutex // one change of what is kept at a time; taken before mu

	mu           sync.RWMutex            // guards the fields below
	keys         map[string][]Key        // by fingerprint, in the order in which they were added
	certificates map[uint64]Certificate  // by serial
	told         []func(func(Pass) bool) // of OnRevoke
}

// New opens the authority. It makes what files are missing.
func New(ctx context.Context, cfg Config) (*Authority, error) {
	if cfg.Certificate == 0 {
		cfg.Certificate = 12 * time.Hour
	}
	a := &Authority{
		cfg: cfg, missing: map[Owner]missing{}, keys: map[string][]Key{},
		certificates: map[uint64]Certificate{},
	}
	var err error
	if a.files, err = openKeyring(cfg.Dir, cfg.Host, cfg.Logger); err != nil {
		return nil, fmt.Errorf("open the keys of ssh: %w", err)
	}
	if err := errors.Join(a.recallKeys(ctx), a.recallMissing(ctx)); err != nil {
		return nil, err
	}
	return a, a.recallCertificates(ctx)
}

// Check says whom a key or certificate lets in under a login name, which is a user's or has + and more behind it. It is
// used before the key is proved too, so it is cheap and changes nothing. Its errors are for the service's log: they may
// say more than a stranger is to know.
func (a *Authority) Check(login string, key ssh.PublicKey) (Pass, error) {
	if c, ok := key.(*ssh.Certificate); ok {
		return a.checkCertificate(login, c)
	}
	return a.checkKey(login, key)
}

// Holds reports whether a pass is still good to come in with: whoever opens a connection asks again once revocations
// reach it.
func (a *Authority) Holds(p Pass) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	switch {
	case p.Serial != 0:
		c, ok := a.certificates[p.Serial]
		return ok && c.Owner == p.Owner && c.Fingerprint == p.Key
	case p.Key != "":
		return a.findLocked(p.Owner, p.Key) >= 0
	default:
		return true
	}
}

// OnRevoke has f called whenever something is taken away, with a question whose answer is true for passes that it
// concerns. f must not wait for long.
func (a *Authority) OnRevoke(f func(gone func(Pass) bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, f)
}

// End has all connections of an owner ended, however they were opened. What lets her in stays.
func (a *Authority) End(owner Owner) { a.tell(func(p Pass) bool { return p.Owner == owner }) }

func (a *Authority) tell(gone func(Pass) bool) {
	a.mu.RLock()
	told := a.told
	a.mu.RUnlock()
	for _, f := range told {
		f(gone)
	}
}

// refused is the error of who is not let in.
func refused(why string) error { return errs.New(errs.Forbidden, "%s", why) }

// wrong is the error of a field of a request. The value is not told: it may be a secret.
func wrong(field, why, remedy string) error {
	return &errs.Error{Kind: errs.Invalid, Field: field, Message: field + ": " + why, Remedy: remedy}
}

// save makes a change of the store safe.
func (a *Authority) save(ctx context.Context, bucket, key string, value any) error {
	if err := a.cfg.Store.Put(ctx, bucket, key, value); err != nil {
		return err
	}
	return a.cfg.Store.Sync(ctx)
}

func (a *Authority) drop(ctx context.Context, bucket, key string) error {
	if err := a.cfg.Store.Delete(ctx, bucket, key); err != nil {
		return err
	}
	return a.cfg.Store.Sync(ctx)
}
