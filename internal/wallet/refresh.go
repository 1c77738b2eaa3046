package wallet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/issuer"
	"slipway/internal/secret"
)

// Run refreshes tokens until ctx ends. It returns when what it began has ended.
func (w *Wallet) Run(ctx context.Context) error {
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
				if err := w.refresh(ctx, k, asked); err != nil && ctx.Err() == nil {
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

// ready gives what is due and not busy, and when the next is.
func (w *Wallet) ready(busy map[key]bool) (list []key, next time.Time) {
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
func (w *Wallet) refresh(ctx context.Context, k key, asked time.Time) error {
	leave, err := w.enter(ctx, k)
	if err != nil {
		return err
	}
	defer leave()
	r, err := w.find(k)
	if err != nil {
		return err
	}
	if !r.Tried.Before(asked) {
		return nil
	}
	free, err := w.slot(ctx, k.name)
	if err != nil {
		return err
	}
	defer free()
	return w.renew(context.WithoutCancel(ctx), r) // an answer with a new refresh token is waited for
}

// slot waits until not too many ask an issuer.
func (w *Wallet) slot(ctx context.Context, name string) (free func(), err error) {
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
func (w *Wallet) renew(ctx context.Context, r record) error {
	if !w.serves(r) {
		return errs.New(errs.Conflict, "%s: %s", r.Name, w.trouble(r, time.Now()))
	}
	c, err := w.open(r)
	if err == nil {
		err = w.exchange(ctx, r, c, secret.New(c.Refresh))
	}
	if issuer.Refused(err) || errs.Is(err, errs.Conflict) {
		if token, mark := w.hubs(ctx, r.key()); token != nil && !bytes.Equal(mark, r.HubMark) {
			r.From, r.HubMark, r.Refused = FromHub, mark, false
			err = w.exchange(ctx, r, c, *token)
		}
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, w.failed(ctx, r.key(), err))
}

// exchange has a refresh token give new ones, and keeps them.
func (w *Wallet) exchange(ctx context.Context, r record, c contents, refresh secret.Text) error {
	t, err := w.tokens[r.Name].Issuer.Refresh(ctx, refresh)
	if err != nil {
		return err
	}
	if t.Refresh.Empty() {
		t.Refresh = refresh
	}
	return w.accept(ctx, r, c, t)
}

// accept keeps an issuer's answer: first the refresh token, which has replaced the one before, then, when all of it is sound, the rest.
func (w *Wallet) accept(ctx context.Context, r record, c contents, t issuer.Tokens) error {
	if t.Refresh.Reveal() != c.Refresh {
		c.Refresh = t.Refresh.Reveal()
		if err := w.save(ctx, r, c); err != nil {
			w.log.Error("a new refresh token is in memory alone", "issuer", r.Name, "err", err)
		}
	}
	source := w.tokens[r.Name].Issuer
	facts, err := source.Check(ctx, t, issuer.Want{Subject: r.Subject})
	if err != nil {
		return err
	}
	now := time.Now()
	c.Access = t.Access.Reveal()
	if facts.Subject != "" {
		r.Subject = facts.Subject
	}
	r.Scopes, r.Audiences, r.Expires, r.Until = facts.Scopes, facts.Audiences, facts.Expires, t.Until
	r.Issued, r.Tried, r.Updated, r.Removed, r.Refused = now, now, now, false, false
	later := w.narrow(ctx, &r, &c)
	if r.Tries, r.Fault = 0, ""; later != nil {
		r.Tries, r.Fault = 1, errs.Brief(later)
	}
	w.count(r.Name, "ok")
	return w.save(ctx, r, c)
}

// narrow has the issuer make tokens for the storage elements that take its own. What could not be asked for now is an error; what the
// issuer does not do is noted.
func (w *Wallet) narrow(ctx context.Context, r *record, c *contents) error {
	source := w.tokens[r.Name].Issuer
	before, now := c.Narrow, time.Now()
	c.Narrow, r.Notes, r.Ends = map[string]narrow{}, nil, r.Expires
	var later error
	for _, e := range w.cfg.Elements {
		if e.Issuer != r.Name {
			continue
		}
		n, note, err := w.narrowFor(ctx, source, *r, *c, e)
		if err != nil && errs.Is(err, errs.Unavailable) {
			later = err
		} else if err != nil {
			note = fmt.Sprintf("the issuer gives no token for storage element %s: %s", e.Name, errs.Brief(err))
		}
		if old, had := before[e.Name]; err != nil && had && old.Expires.After(now) {
			n = old
		}
		if note != "" {
			r.Notes = append(r.Notes, note)
		}
		if n.Token == "" {
			continue
		}
		if c.Narrow[e.Name] = n; n.Expires.Before(r.Ends) && err == nil {
			r.Ends = n.Expires
		}
	}
	return later
}

// narrowFor gives the token for a storage element, and what is to be noted of it.
func (w *Wallet) narrowFor(ctx context.Context, source Issuer, r record, c contents, e Element) (narrow, string, error) {
	offers, err := source.Offers(ctx)
	if err != nil {
		return narrow{}, "", err
	}
	if !offers.Exchange {
		return narrow{c.Access, r.Expires}, fmt.Sprintf("storage element %s gets the token with all its scopes: the issuer exchanges none", e.Name), nil
	}
	t, err := source.Exchange(ctx, secret.New(c.Access), e.Audience, e.Scopes)
	if err != nil {
		return narrow{}, "", err
	}
	facts, err := source.Check(ctx, t, issuer.Want{Subject: r.Subject, Audience: e.Audience})
	if err != nil {
		return narrow{}, "", err
	}
	return narrow{t.Access.Reveal(), facts.Expires}, "", nil
}

// failed writes down that a try has failed.
func (w *Wallet) failed(ctx context.Context, k key, err error) error {
	r, found := w.find(k) // as it is now: a part of the try may have been kept
	if found != nil {
		return nil
	}
	r.Tried, r.Fault = time.Now(), errs.Brief(err)
	r.Tries++
	result := "unavailable"
	switch {
	case issuer.Refused(err) || errs.Is(err, errs.Conflict):
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
