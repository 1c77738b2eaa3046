package credentials

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/oidc"
	"slipway/internal/secret"
)

// Renew refreshes a token now, or finds that somebody else just does, and gives what has come of it.
func (w *Manager) Renew(ctx context.Context, principal, name string) (Entry, error) {
	k := key{principal, name}
	r, err := w.find(k)
	if err != nil {
		return Entry{}, err
	}
	if r.Kind == Proxy {
		return Entry{}, errs.New(errs.Invalid, "a proxy cannot be renewed here").
			With("make a new one and put it: slipway proxy put")
	}
	if time.Since(r.Tried) >= renewEvery {
		err = w.refresh(ctx, k, time.Now())
	}
	now, lost := w.find(k)
	if lost != nil {
		return Entry{}, lost
	}
	return w.entry(now, time.Now()), err
}

// renewEvery is the least time between two tries that a user can bring about: repeated at once, they have the same
// answer.
const renewEvery = 5 * time.Second

// Remove takes a credential away, here and in all workloads, and has its issuer revoke it. An error of kind Unavailable
// or Missing says that it is gone here, and that the issuer was not told.
func (w *Manager) Remove(ctx context.Context, principal, name string) error {
	leave, err := w.enter(ctx, key{principal, name})
	if err != nil {
		return err
	}
	defer leave()
	r, err := w.find(key{principal, name})
	if err != nil {
		return err
	}
	c, unreadable := w.open(r)
	if len(r.HubMark) > 0 {
		err = w.keep(ctx, record{
			Principal: r.Principal, Facts: Facts{Name: r.Name, Kind: r.Kind, Issuer: r.Issuer}, HubMark: r.HubMark,
			Removed: true,
		})
	} else {
		err = w.drop(ctx, r)
	}
	if err != nil || r.Kind != Token || r.Refused || unreadable != nil || !w.serves(r) {
		return err
	}
	if err := w.tokens[name].Issuer.Revoke(ctx, secret.New(c.Refresh)); err != nil {
		kind := errs.Unavailable
		if errs.Is(err, errs.Missing) {
			kind = errs.Missing
		}
		return errs.New(kind, "it is removed here, but its issuer did not revoke it: %w", err).
			With("revoke it on the issuer's own page")
	}
	return nil
}

// maxProxy is how many bytes a proxy has at most.
const maxProxy = 256 << 10

// PutProxy takes a proxy in place of the one before.
func (w *Manager) PutProxy(ctx context.Context, principal string, pem secret.Text) (Entry, error) {
	switch {
	case w.cfg.Proxy == nil:
		return Entry{}, errs.New(errs.Missing, "this service takes no X.509 proxies").
			With("the administrator sets credentials.x509.trust")
	case len(pem.Reveal()) > maxProxy:
		return Entry{}, errs.New(errs.Invalid, "the proxy has %d bytes", len(pem.Reveal())).
			With("a proxy with its chain and key, not more")
	}
	e, plain, err := w.cfg.Proxy(ctx, pem)
	if err != nil {
		return Entry{}, err
	}
	leave, err := w.enter(ctx, key{principal, ProxyName})
	if err != nil {
		return Entry{}, err
	}
	defer leave()
	now := time.Now()
	r := record{
		Principal: principal, Facts: Facts{
			Name: ProxyName, Kind: Proxy, Issuer: e.Issuer, Subject: e.Subject, VO: e.VO, FQANs: e.FQANs,
			From: FromUpload, Expires: e.Expires, Notes: e.Notes, Updated: now,
		},
		Issued: now, Ends: e.Expires,
	}
	if _, err := w.whose(r); err != nil {
		return Entry{}, err
	}
	if err := w.save(ctx, r, contents{Proxy: plain.Reveal()}); err != nil {
		return Entry{}, err
	}
	return w.entry(r, now), nil
}

// PutRefresh takes a refresh token of an issuer, once it has given an access token, in place of what there was.
func (w *Manager) PutRefresh(ctx context.Context, principal, name string, refresh secret.Text) (Entry, error) {
	source, err := w.source(name)
	if err != nil {
		return Entry{}, err
	}
	text := strings.TrimSpace(refresh.Reveal())
	if text == "" || len(text) > maxRefresh || strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }) {
		return Entry{}, errs.New(errs.Invalid, "refresh_token: it is no refresh token").
			With("one line, as the issuer gives it")
	}
	return w.replace(ctx, key{principal, name}, FromGiven, nil, func(ctx context.Context) (oidc.Tokens, error) {
		t, err := source.Issuer.Refresh(ctx, secret.New(text))
		if t.Refresh.Empty() {
			t.Refresh = secret.New(text)
		}
		return t, err
	})
}

// maxRefresh is how many bytes a refresh token has at most.
const maxRefresh = 32 << 10

func (w *Manager) source(name string) (Source, error) {
	s, ok := w.tokens[name]
	if !ok {
		return Source{}, errs.Bad("issuer", name, "one of: "+strings.Join(w.Issuers(), ", "))
	}
	return s, nil
}

// replace puts what get gives in place of what there was. When it is not sound, what there was stays.
func (w *Manager) replace(
	ctx context.Context, k key, from string, mark []byte, get func(context.Context) (oidc.Tokens, error),
) (Entry, error) {
	leave, err := w.enter(ctx, k)
	if err != nil {
		return Entry{}, err
	}
	defer leave()
	free, err := w.slot(ctx, k.name)
	if err != nil {
		return Entry{}, err
	}
	defer free()
	t, err := get(context.WithoutCancel(ctx)) // what an issuer gives, it gives once
	if err != nil {
		if mark != nil && oidc.Refused(err) {
			w.passOver(ctx, k, mark)
		}
		return Entry{}, err
	}
	if t.Refresh.Empty() {
		return Entry{}, errs.New(errs.Invalid, "the issuer %s gave no refresh token", k.name).
			With("the administrator adds the scope offline_access under credentials.issuers")
	}
	w.mu.Lock()
	before, had := w.records[k]
	w.mu.Unlock()
	r, c := w.basis(k, before)
	r.From, r.Updated = from, time.Now()
	if mark != nil {
		r.HubMark = mark
	}
	if err = w.accept(ctx, r, c, t); err == nil {
		now, err := w.find(k)
		return w.entry(now, time.Now()), err
	}
	switch {
	case ctx.Err() != nil: // it is kept, and tried again
	case errs.Is(err, errs.Unavailable):
		_ = w.failed(ctx, k, err) // it is kept, and tried again
	case had:
		_ = w.keep(ctx, before)
	default:
		_ = w.drop(ctx, r)
	}
	return Entry{}, err
}

// basis returns what a new login starts from: what workloads have stays theirs until there is something new, and the
// person is the same.
func (w *Manager) basis(k key, before record) (record, contents) {
	fresh := record{
		Principal: k.principal, Facts: Facts{Name: k.name, Kind: Token, Issuer: w.tokens[k.name].Issuer.URL()},
		HubMark: before.HubMark,
	}
	if before.Issuer != fresh.Issuer || before.Removed {
		return fresh, contents{}
	}
	c, err := w.open(before)
	if err != nil {
		fresh.Subject = before.Subject
		return fresh, contents{}
	}
	before.Refused, before.Tries, before.Fault = false, 0, ""
	before.Claims = nil // who has logged in now is to be told anew
	return before, c
}

// passOver remembers a token of the Hub's that the issuer refuses, so that it is not sent again at each start of a
// session.
func (w *Manager) passOver(ctx context.Context, k key, mark []byte) {
	w.mu.Lock()
	r, had := w.records[k]
	w.mu.Unlock()
	if !had {
		r = record{
			Principal: k.principal, Facts: Facts{Name: k.name, Kind: Token, Issuer: w.tokens[k.name].Issuer.URL()},
			Removed: true,
		}
	}
	r.HubMark = mark
	if err := w.keep(ctx, r); err != nil {
		w.log.Warn("that a token of the Hub's is of no use is in memory alone", "issuer", k.name, "err", err)
	}
}

// Seek takes from the Hub what it has for a user who has nothing that works.
func (w *Manager) Seek(ctx context.Context, principal string) {
	for _, s := range w.cfg.Sources {
		k := key{principal, s.Name}
		w.mu.Lock()
		r, had := w.records[k]
		w.mu.Unlock()
		if had && !r.Removed && !r.Refused {
			continue
		}
		token, mark := w.hubs(ctx, k)
		if token == nil || bytes.Equal(mark, r.HubMark) {
			continue
		}
		_, err := w.replace(ctx, k, FromHub, mark, func(ctx context.Context) (oidc.Tokens, error) {
			t, err := s.Issuer.Refresh(ctx, *token)
			if t.Refresh.Empty() {
				t.Refresh = *token
			}
			return t, err
		})
		if err != nil {
			w.log.Warn("what the Hub has for a user gives no token", "issuer", s.Name, "err", err)
		}
	}
}

// hubs returns what the Hub has for a user, and its mark; nil when there is nothing.
func (w *Manager) hubs(ctx context.Context, k key) (*secret.Text, []byte) {
	if w.cfg.Hub == nil || !w.tokens[k.name].Hub {
		return nil, nil
	}
	token, err := w.cfg.Hub(ctx, k.principal, k.name)
	if err != nil {
		w.log.Warn("the Hub does not give a user's refresh token", "issuer", k.name, "err", err)
	}
	if err != nil || token.Empty() || len(token.Reveal()) > maxRefresh {
		return nil, nil
	}
	return &token, w.markOf(token)
}

// grant is a login that waits.
type grant struct {
	principal, issuer string
	device            oidc.Device // guarded by the Manager's mu until its id is given
	over              bool        // nobody waits any more; guarded by the Manager's mu

	turn  sync.Mutex // one waits at the issuer
	done  bool       // guarded by turn
	entry Entry
	err   error
}

// mostGrants is how many logins of one user wait at a time.
const mostGrants = 5

// BeginDevice begins a login by device flow.
func (w *Manager) BeginDevice(ctx context.Context, principal, name string) (Grant, error) {
	source, err := w.source(name)
	if err != nil {
		return Grant{}, err
	}
	id, err := w.reserve(principal, name)
	if err != nil {
		return Grant{}, err
	}
	d, err := source.Issuer.BeginDevice(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		delete(w.grants, id)
		return Grant{}, err
	}
	w.grants[id].device = d
	return Grant{ID: id, URL: d.URL, Code: d.Code, Expires: d.Expires}, nil
}

// reserve takes a place among a user's logins before the issuer is asked, and forgets old ones.
func (w *Manager) reserve(principal, name string) (id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for id, g := range w.grants {
		if begun := !g.device.Expires.IsZero(); begun && time.Since(g.device.Expires) > 0 {
			delete(w.grants, id)
		} else if g.principal == principal && !g.over {
			n++
		}
	}
	if n >= mostGrants {
		return "", errs.New(errs.OverQuota, "%d logins wait for you already", mostGrants).
			With("confirm one of them, or wait until they expire")
	}
	id = rand.Text()
	w.grants[id] = &grant{principal: principal, issuer: name}
	return id, nil
}

// Device waits until a login is granted, refused or expired. Who gave up waiting may ask again.
func (w *Manager) Device(ctx context.Context, principal, grantID string) (Entry, error) {
	w.mu.Lock()
	g := w.grants[grantID]
	w.mu.Unlock()
	if g == nil || g.principal != principal {
		return Entry{}, errs.New(errs.NotFound, "there is no such login").With("begin another")
	}
	if !g.turn.TryLock() {
		return Entry{}, errs.New(errs.Conflict, "somebody waits for this login already")
	}
	defer g.turn.Unlock()
	if g.done {
		return g.entry, g.err
	}
	t, err := w.tokens[g.issuer].Issuer.AwaitDevice(ctx, g.device)
	if err != nil && ctx.Err() != nil {
		return Entry{}, err
	}
	g.done, g.err = true, err
	w.mu.Lock()
	g.over = true
	w.mu.Unlock()
	if err == nil {
		g.entry, g.err = w.replace(
			context.WithoutCancel(ctx), key{principal, g.issuer}, FromDevice, nil,
			func(context.Context) (oidc.Tokens, error) { return t, nil },
		)
	}
	return g.entry, g.err
}
