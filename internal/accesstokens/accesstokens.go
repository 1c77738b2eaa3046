// Package accesstokens keeps the tokens by which programs on users' own computers are known to the service. A user lets
// such a program in with a login in the browser (package devicelogin); the token then stands for that user until it
// expires or is revoked.
//
// Promises: a token is kept as a hash alone, so that whoever reads the store cannot use it; one that has expired or
// was revoked, or whose user the Hub does not know any more, lets nobody in. The package must not know what callers may
// do.
package accesstokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/internal/clock"
	"slipway/internal/devicelogin"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

const (
	lifetime  = 30 * 24 * time.Hour
	userLimit = 50          // of tokens of one user
	knownFor  = time.Minute // that a Hub knows a user is asked for no more often than this
	lookEvery = time.Hour   // between two looks for tokens that are over
	bucket    = "access-tokens"
	prefix    = "slipway_" // by which scanners for leaked secrets find tokens
)

// Owner is a user of a hub.
type Owner = devicelogin.Owner

// token is what the service keeps of one.
type token struct {
	hubapi.AccessToken
	Hash []byte `json:"hash"` // SHA-256 of the token
}

func (t token) owner() Owner { return Owner{Hub: t.Hub, User: t.User} }

// record is an entry of the store, as package store has it.
type record = struct {
	Key   string
	Value json.RawMessage
}

// Store is what Tokens need of store.Store.
type Store interface {
	Put(ctx context.Context, bucket, key string, value any) error
	Delete(ctx context.Context, bucket, key string) error
	All(ctx context.Context, bucket string) iter.Seq2[record, error]
	Sync(ctx context.Context) error
}

// Config is what Tokens need.
type Config struct {
	Store Store
	// Known says whether a user's Hub knows them still.
	Known  func(ctx context.Context, o Owner) (bool, error)
	Logger *slog.Logger
}

type hash = [sha256.Size]byte

// Tokens are all that hold. They are safe for concurrent use.
type Tokens struct {
	cfg    Config
	change sync.Mutex // one change of what is kept at a time; taken before mu

	mu     sync.RWMutex // guards the fields below
	byHash map[hash]token
	known  map[Owner]time.Time // when a Hub was asked for a user whom it knows
}

// New reads the tokens that are kept.
func New(ctx context.Context, cfg Config) (*Tokens, error) {
	t := &Tokens{cfg: cfg, byHash: map[hash]token{}, known: map[Owner]time.Time{}}
	for r, err := range cfg.Store.All(ctx, bucket) {
		if err != nil {
			return nil, fmt.Errorf("read the access tokens: %w", err)
		}
		var kept token
		if err := json.Unmarshal(r.Value, &kept); err != nil || len(kept.Hash) != sha256.Size {
			return nil, fmt.Errorf("read the access token %s: its record is damaged (%v)", r.Key, err)
		}
		t.byHash[hash(kept.Hash)] = kept
	}
	return t, nil
}

// Is reports whether a text has the form of such a token. Tokens of a Hub do not.
func Is(text string) bool { return strings.HasPrefix(text, prefix) }

// Issue makes a token for a login that its user has confirmed.
func (t *Tokens) Issue(ctx context.Context, l devicelogin.Confirmed) (hubapi.AccessToken, secret.Text, error) {
	t.change.Lock()
	defer t.change.Unlock()
	if len(t.List(l.Owner)) >= userLimit {
		return hubapi.AccessToken{}, secret.Text{}, errs.New(errs.OverQuota, "you have %d access tokens", userLimit).
			With("revoke some on the page Credentials of your Hub's Slipway")
	}
	text, now := prefix+rand.Text(), time.Now().UTC()
	sum := sha256.Sum256([]byte(text))
	made := token{hubapi.AccessToken{
		ID: strings.ToLower(rand.Text()[:10]), Hub: l.Owner.Hub, User: l.Owner.User, Computer: l.Computer,
		Program: l.Program, Created: now, Expires: now.Add(lifetime),
	}, sum[:]}
	if l.Address.IsValid() {
		made.Address = l.Address.String()
	}
	if err := t.cfg.Store.Put(ctx, bucket, made.ID, made); err != nil {
		return hubapi.AccessToken{}, secret.Text{}, err
	}
	if err := t.cfg.Store.Sync(ctx); err != nil {
		return hubapi.AccessToken{}, secret.Text{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHash[sum] = made
	return made.AccessToken, secret.New(text), nil
}

// Find returns the user whose token it is: errs.Unauthorized where it is nobody's now.
func (t *Tokens) Find(ctx context.Context, text string) (Owner, error) {
	now := time.Now()
	t.mu.RLock()
	found, ok := t.byHash[sha256.Sum256([]byte(text))]
	asked := t.known[found.owner()]
	t.mu.RUnlock()
	switch {
	case !ok || !now.Before(found.Expires):
		return Owner{}, errs.New(errs.Unauthorized, "the access token has expired or was revoked").
			With("log in again with `slipway login`")
	case now.Sub(asked) < knownFor:
		return found.owner(), nil
	}
	known, err := t.cfg.Known(ctx, found.owner())
	switch {
	case err != nil:
		return Owner{}, err
	case !known:
		return Owner{}, errs.New(errs.Unauthorized, "the Hub does not know the user of the access token").
			With("log in at the Hub, and then again with `slipway login`")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[found.owner()] = now
	return found.owner(), nil
}

// List returns a user's tokens that hold, the newest first.
func (t *Tokens) List(o Owner) (list []hubapi.AccessToken) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, each := range t.byHash {
		if each.owner() == o && time.Now().Before(each.Expires) {
			list = append(list, each.AccessToken)
		}
	}
	slices.SortFunc(list, func(x, y hubapi.AccessToken) int { return y.Created.Compare(x.Created) })
	return list
}

// Revoke ends a user's token.
func (t *Tokens) Revoke(ctx context.Context, o Owner, id string) error {
	t.change.Lock()
	defer t.change.Unlock()
	t.mu.RLock()
	all := slices.Collect(maps.Values(t.byHash))
	t.mu.RUnlock()
	at := slices.IndexFunc(all, func(each token) bool { return each.ID == id && each.owner() == o })
	if at < 0 {
		return errs.New(errs.NotFound, "you have no access token %s", id).
			With("look at the list of yours on the page Credentials of your Hub's Slipway")
	}
	return t.drop(ctx, all[at])
}

// drop removes a token; the caller has the lock of changes.
func (t *Tokens) drop(ctx context.Context, gone token) error {
	if err := t.cfg.Store.Delete(ctx, bucket, gone.ID); err != nil {
		return err
	}
	if err := t.cfg.Store.Sync(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byHash, hash(gone.Hash))
	return nil
}

// Run removes until ctx ends what has expired, and what is of users whom their Hub does not know any more: whoever is
// given such a name later must not be opened to by an old token.
func (t *Tokens) Run(ctx context.Context) error {
	for {
		t.look(ctx)
		if !clock.Sleep(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}

func (t *Tokens) look(ctx context.Context) {
	t.mu.RLock()
	all := slices.Collect(maps.Values(t.byHash))
	t.mu.RUnlock()
	gone := map[Owner]bool{}
	for _, each := range all {
		if _, asked := gone[each.owner()]; !asked {
			known, err := t.cfg.Known(ctx, each.owner())
			gone[each.owner()] = err == nil && !known // unknown is not gone
		}
	}
	t.change.Lock()
	defer t.change.Unlock()
	for _, each := range all {
		if !gone[each.owner()] && time.Now().Before(each.Expires) {
			continue
		}
		if err := t.drop(ctx, each); err != nil {
			t.cfg.Logger.Warn("an access token that is over is not removed from the store", "token", each.ID, "error", err)
		}
	}
}
