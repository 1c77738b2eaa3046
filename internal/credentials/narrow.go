package credentials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/oidc"
	"slipway/internal/secret"
)

// owed is what an issuer has not given yet of what is to be had with the main token: it is asked for with that, so that
// an issuer that refreshes and does not exchange is not made to refresh again and again.
type owed struct {
	Tried time.Time `json:"tried,omitzero"` // zero: nothing is owed
	Tries int       `json:"tries,omitempty"`
	Fault string    `json:"fault,omitempty"`
}

func (o owed) is() bool { return !o.Tried.IsZero() }

// elementsOf returns the storage elements that take an issuer's tokens.
func (w *Manager) elementsOf(name string) []Element {
	return slices.DeleteFunc(slices.Clone(w.cfg.Elements), func(e Element) bool { return e.Issuer != name })
}

// narrow has the issuer make tokens for the storage elements that take its own, and keeps them. What could not be had
// now stays owed.
func (w *Manager) narrow(ctx context.Context, r record, c contents) error {
	later := w.askNarrow(ctx, &r, &c)
	switch {
	case ctx.Err() != nil:
		return nil // it stays owed as it was
	case later == nil:
		r.Owed = owed{}
	default:
		r.Owed = owed{Tried: time.Now(), Tries: r.Owed.Tries + 1, Fault: errs.Brief(later)}
	}
	return w.save(ctx, r, c)
}

// askNarrow asks for all of them. What could not be asked for now is an error, and ends the asking: each call may take
// long. What the issuer does not do is noted.
func (w *Manager) askNarrow(ctx context.Context, r *record, c *contents) (later error) {
	source := w.tokens[r.Name].Issuer
	before, now := c.Narrow, time.Now()
	c.Narrow, r.Notes, r.Ends = map[string]narrow{}, nil, r.Expires
	for _, e := range w.elementsOf(r.Name) {
		var n narrow
		var note string
		err := later
		if later == nil {
			n, note, err = w.narrowFor(ctx, source, *r, *c, e)
		}
		if err != nil && (ctx.Err() != nil || errs.Is(err, errs.Unavailable)) {
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

// narrowFor returns the token for a storage element, and what is to be noted of it.
func (w *Manager) narrowFor(
	ctx context.Context, source Issuer, r record, c contents, e Element,
) (narrow, string, error) {
	offers, err := source.Offers(ctx)
	if err != nil {
		return narrow{}, "", err
	}
	if !offers.Exchange {
		return narrow{c.Access, r.Expires}, fmt.Sprintf(
			"storage element %s gets the token with all its scopes: the issuer exchanges none", e.Name,
		), nil
	}
	t, err := source.Exchange(ctx, secret.New(c.Access), e.Audience, e.Scopes)
	if err != nil {
		return narrow{}, "", err
	}
	facts, err := source.Check(ctx, t, oidc.Want{Subject: r.Subject, Audience: e.Audience})
	if err != nil {
		return narrow{}, "", err
	}
	return narrow{t.Access.Reveal(), facts.Expires}, wider(e, facts), nil
}

// wider says in what a token is not as narrow as it was asked for; empty when it is.
func wider(e Element, f oidc.Facts) string {
	var more []string
	for _, s := range f.Scopes {
		if len(e.Scopes) > 0 && !slices.ContainsFunc(e.Scopes, func(asked string) bool { return within(s, asked) }) {
			more = append(more, "scope "+s)
		}
	}
	for _, a := range f.Audiences {
		if e.Audience != "" && a != e.Audience {
			more = append(more, "audience "+a)
		}
	}
	switch {
	case len(more) > 0:
		return fmt.Sprintf(
			"the token for storage element %s holds for more than was asked for: %s", e.Name, strings.Join(more, ", "),
		)
	case len(e.Scopes) > 0 && len(f.Scopes) == 0, e.Audience != "" && len(f.Audiences) == 0:
		return fmt.Sprintf(
			"the token for storage element %s does not say how far it reaches: it may be no narrower than the main one",
			e.Name,
		)
	}
	return ""
}

// within reports whether a scope is the one asked for, or the same for a place below it.
func within(scope, asked string) bool {
	return scope == asked || strings.Contains(asked, ":/") && strings.HasPrefix(
		scope, strings.TrimSuffix(asked, "/")+"/",
	)
}
