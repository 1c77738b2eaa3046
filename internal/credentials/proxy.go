package credentials

import (
	"context"

	"slipway/internal/errs"
	"slipway/internal/secret"
)

// RenewProxy takes a proxy as PutProxy does, but no other person's than the one that there is: it is for callers in
// workloads, where others' code may run.
func (w *Manager) RenewProxy(ctx context.Context, principal string, pem secret.Text) (Entry, error) {
	before, err := w.find(key{principal, ProxyName})
	if errs.Is(err, errs.NotFound) || w.cfg.Proxy == nil || len(pem.Reveal()) > maxProxy {
		return w.PutProxy(ctx, principal, pem)
	}
	if err != nil {
		return Entry{}, err
	}
	e, _, err := w.cfg.Proxy(ctx, pem)
	if err != nil {
		return Entry{}, err
	}
	if e.Subject != before.Subject {
		return Entry{}, errs.New(
			errs.Forbidden,
			"the proxy is of %s, and the one that there is, of %s: from within a session nobody becomes somebody else",
			e.Subject, before.Subject,
		).With("remove that one first, on the page Credentials of your Hub's Slipway or with `slipway credentials revoke x509` on your own computer")
	}
	return w.PutProxy(ctx, principal, pem)
}
