package credentials

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/identity"
	"slipway/internal/oidc"
	"slipway/internal/secret"
)

// Run refreshes tokens until ctx ends. It returns when what it began has ended.
func (w *Manager) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	busy := map[key]bool{}
	done := make(chan key)
	for ctx.Err() == nil {
		ready, next := w.ready(busy)
		looked := time.Now()
		for _, k := range ready {
			busy[k] = true
			asked := time.Now()
			work.Go(func() {
				if err := w.tend(ctx, k, asked); err != nil && ctx.Err() == nil {
					w.log.Debug("a token was not refreshed", "issuer", k.name, "err", err)
				}
				select {
				case done <- k:
				case <-ctx.Done():
				}
			})
		}
		for next.After(time.Now()) {
			timer := time.NewTimer(time.Until(next))
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case <-timer.C:
			case <-w.wake:
				next = soonest(next, looked.Add(lookEvery))
			case k := <-done:
				delete(busy, k)
				next = soonest(next, looked.Add(lookEvery))
			}
			timer.Stop()
		}
	}
	return ctx.Err()
}

const (
	lookEvery = 5 * time.Second // Run looks at all that there is: not at every change
	lookAgain = time.Hour       // and without any
)

func soonest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ready returns what is due and not busy, and when the next is.
func (w *Manager) ready(busy map[key]bool) (list []key, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	next = now.Add(lookAgain)
	for k, r := range w.records {
		at, ok := due(r, len(w.watches[k.principal]) > 0, w.born)
		switch {
		case !ok || busy[k] || !w.serves(r):
		case !at.After(now):
			list = append(list, k)
		case at.Before(next):
			next = at
		}
	}
	return list, next
}

// refresh refreshes one token, unless that was tried since asked.
func (w *Manager) refresh(ctx context.Context, k key, asked time.Time) error {
	return w.work(ctx, k, func(r record) error {
		if !r.Tried.Before(asked) {
			return nil
		}
		return w.renew(ctx, r)
	})
}

// tend does what is due for one token, unless that was tried since asked.
func (w *Manager) tend(ctx context.Context, k key, asked time.Time) error {
	return w.work(ctx, k, func(r record) error {
		at, ok := refreshDue(r, w.watched(k.principal), w.born)
		switch {
		case !r.Tried.Before(asked):
			return nil
		case !r.Owed.is() || ok && !at.After(time.Now()):
			return w.renew(ctx, r)
		}
		c, err := w.open(r)
		if err != nil {
			return err
		}
		return w.narrow(ctx, r, c)
	})
}

func (w *Manager) watched(principal string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watches[principal]) > 0
}

// work does something with a token in its turn, when not too many ask its issuer.
func (w *Manager) work(ctx context.Context, k key, do func(record) error) error {
	leave, err := w.enter(ctx, k)
	if err != nil {
		return err
	}
	defer leave()
	free, err := w.slot(ctx, k.name)
	if err != nil {
		return err
	}
	defer free()
	r, err := w.find(k)
	if err != nil {
		return err
	}
	return do(r)
}

// slot waits until not too many ask an issuer.
func (w *Manager) slot(ctx context.Context, name string) (free func(), err error) {
	slots := w.slots[name]
	if slots == nil {
		return nil, errs.New(errs.NotFound, "there is no issuer %q in the configuration", name)
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// renew asks the issuer. The Hub is asked when the issuer does not take what there is. The caller has the turn.
func (w *Manager) renew(ctx context.Context, r record) error {
	if !w.serves(r) {
		return errs.New(errs.Conflict, "%s: %s", r.Name, w.trouble(r, time.Now()))
	}
	c, err := w.open(r)
	if err == nil {
		err = w.exchange(ctx, r, c, secret.New(c.Refresh))
	}
	if oidc.Refused(err) || errs.Is(err, errs.Conflict) {
		if token, mark := w.hubs(ctx, r.key()); token != nil && !bytes.Equal(mark, r.HubMark) {
			r.From, r.HubMark, r.Refused, r.Claims = FromHub, mark, false, nil
			err = w.exchange(ctx, r, c, *token)
		}
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, w.failed(ctx, r.key(), err))
}

// exchange has a refresh token give new ones, and keeps them. An answer with a new refresh token is waited for, whoever
// goes away.
func (w *Manager) exchange(ctx context.Context, r record, c contents, refresh secret.Text) error {
	t, err := w.tokens[r.Name].Issuer.Refresh(context.WithoutCancel(ctx), refresh)
	if err != nil {
		return err
	}
	if t.Refresh.Empty() {
		t.Refresh = refresh
	}
	return w.accept(ctx, r, c, t)
}

// accept keeps an issuer's answer: first the refresh token, which has replaced the one before, then, when all of it is
// sound, the main token, which workloads have from then on, then those for storage elements. That these could not be
// had yet is no error.
func (w *Manager) accept(ctx context.Context, r record, c contents, t oidc.Tokens) error {
	if t.Refresh.Reveal() != c.Refresh {
		c.Refresh = t.Refresh.Reveal()
		if err := w.save(ctx, r, c); err != nil {
			w.log.Error("a new refresh token is in memory alone", "issuer", r.Name, "err", err)
		}
	}
	facts, err := w.tokens[r.Name].Issuer.Check(ctx, t, oidc.Want{Subject: r.Subject})
	if err == nil {
		err = w.alone(r, facts.Subject)
	}
	if err != nil {
		return err
	}
	if r.Claims = told(r, facts); w.cfg.Whose != nil {
		who := r
		who.Subject = cmp.Or(facts.Subject, r.Subject)
		if _, err := w.whose(who); err != nil {
			return err
		}
	}
	now := time.Now()
	c.Access = t.Access.Reveal()
	if facts.Subject != "" {
		r.Subject = facts.Subject
	}
	r.Scopes, r.Audiences, r.Expires, r.Ends, r.Until = facts.Scopes, facts.Audiences, facts.Expires, facts.Expires, t.Until
	r.Issued, r.Tried, r.Updated, r.Removed, r.Refused, r.Tries, r.Fault = now, now, now, false, false, 0, ""
	r.Owed.Tried = now
	w.count(r.Name, "ok")
	if len(w.elementsOf(r.Name)) > 0 {
		if err := w.save(ctx, r, c); err != nil {
			return err
		}
	}
	return w.narrow(ctx, r, c)
}

// told returns what an issuer has said of a user that rules ask for. What it does not repeat when it refreshes still
// holds: it is the same person.
func told(r record, f oidc.Facts) map[string]string {
	all := maps.Clone(f.Claims)
	for name, text := range r.Claims {
		if _, said := all[name]; !said {
			if all == nil {
				all = map[string]string{}
			}
			all[name] = text
		}
	}
	return all
}

// whose says by which rule a credential is its user's, or refuses it.
func (w *Manager) whose(r record) (by string, err error) {
	if w.cfg.Whose == nil {
		return "", nil
	}
	h := Holder{Kind: r.Kind, Issuer: r.Name, Claims: maps.Clone(r.Claims)}
	if r.Kind == Proxy {
		h = Holder{Kind: Proxy, Name: r.Subject}
	} else if r.Subject != "" {
		if h.Claims == nil {
			h.Claims = map[string]string{}
		}
		h.Claims["sub"] = r.Subject
	}
	return w.cfg.Whose(r.Principal, h)
}

// alone refuses what is another user's of the same realm: who confirms a login that somebody else has begun would give
// her own tokens away.
func (w *Manager) alone(r record, subject string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, other := range w.records {
		same := subject != "" && other.Subject == subject && other.Issuer == r.Issuer && other.Kind == Token &&
			!other.Removed
		if same && k.principal != r.Principal && identity.RealmOf(k.principal) == identity.RealmOf(r.Principal) {
			return errs.New(errs.Forbidden, "this account of the issuer %s is another user's here", r.Name).
				With("log in with your own; if it is yours, tell the administrator, who removes it there")
		}
	}
	return nil
}

// failed writes down that a try has failed.
func (w *Manager) failed(ctx context.Context, k key, err error) error {
	r, found := w.find(k) // as it is now: a part of the try may have been kept
	if found != nil {
		return nil
	}
	r.Tried, r.Fault = time.Now(), errs.Brief(err)
	r.Tries++
	result := "unavailable"
	switch {
	case oidc.Refused(err):
		r.Refused, result = true, "refused"
	case !errs.Is(err, errs.Unavailable):
		result = "failed"
	}
	w.count(k.name, result)
	if r.Tries == 1 || r.Refused {
		w.log.Warn("a user's token was not refreshed", "issuer", k.name, "result", result, "reason", r.Fault)
	}
	return w.keep(ctx, r)
}
