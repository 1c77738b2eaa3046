package sshauth

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// lookEvery is how often the hubs are asked whether they still know whoever could come in. Who comes in is asked for then, too.
const lookEvery = 10 * time.Minute

// Forget takes everything away that lets an owner in, and ends her connections: her hub has said that it has no such user. Whoever is given
// her name there later must not find her keys open his sessions.
func (a *Authority) Forget(ctx context.Context, owner Owner) error {
	var all []error
	keys, certificates := a.Keys(owner), a.Certificates(owner)
	for _, k := range keys {
		all = append(all, a.RemoveKey(ctx, owner, k.Fingerprint))
	}
	for _, c := range certificates {
		all = append(all, a.Revoke(ctx, owner, c.Serial))
	}
	a.End(owner)
	if len(keys)+len(certificates) > 0 {
		a.cfg.Logger.Warn("the Hub does not know a user any more: what let her in by ssh is removed", "user", owner.User, "hub", owner.Hub,
			"keys", len(keys), "certificates", len(certificates))
	}
	return errors.Join(all...)
}

// owners gives all who have a key or a certificate.
func (a *Authority) owners() []Owner {
	a.mu.RLock()
	defer a.mu.RUnlock()
	have := map[Owner]bool{}
	for _, all := range a.keys {
		for _, k := range all {
			have[k.Owner] = true
		}
	}
	for _, c := range a.certificates {
		have[c.Owner] = true
	}
	return slices.SortedFunc(maps.Keys(have), func(x, y Owner) int { return strings.Compare(x.Hub+" "+x.User, y.Hub+" "+y.User) })
}

// Follow forgets until ctx ends whom the hubs do not know any more. gone says so of an owner; it is asked for one after the other, and what
// it cannot find out is looked at again the next time: unknown is not gone.
func (a *Authority) Follow(ctx context.Context, gone func(context.Context, Owner) (bool, error)) error {
	for {
		for _, o := range a.owners() {
			if is, err := gone(ctx, o); is && err == nil {
				if err := a.Forget(ctx, o); err != nil {
					a.cfg.Logger.Warn("what lets a user in by ssh whom the Hub does not know any more is not removed", "user", o.User, "hub", o.Hub, "error", err)
				}
			}
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
