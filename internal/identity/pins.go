package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"slipway/internal/errs"
)

// userKey is the beginning of a user's key in the store.
const userKey = "user "

// recall reads, once, which id is whose. The caller has ids.
func (a *Accounts) recall(ctx context.Context) error {
	if a.known != nil {
		return nil
	}
	known, owners := map[string]int{}, map[int]string{}
	for r, err := range a.cfg.Store.All(ctx, bucket) {
		if err != nil {
			return fmt.Errorf("read whose numbers are whose: %w", err)
		}
		principal, is := strings.CutPrefix(r.Key, userKey)
		if !is {
			continue
		}
		uid := 0
		if err := json.Unmarshal(r.Value, &uid); err != nil {
			return fmt.Errorf("read the number of %q: %w", principal, err)
		}
		known[principal], owners[uid] = uid, principal
	}
	a.known, a.owners = known, owners
	return nil
}

// bind keeps a user's number, which was found elsewhere: nobody else's may it be, and no other one hers, for what lies
// on disks belongs to the number and not to her.
func (a *Accounts) bind(ctx context.Context, principal string, n Numbers, home string) error {
	a.ids.Lock()
	defer a.ids.Unlock()
	if err := a.recall(ctx); err != nil {
		return err
	}
	had, is := a.known[principal]
	other := a.owners[n.UID]
	switch {
	case is && had == n.UID:
		return nil
	case is:
		return errs.New(
			errs.Conflict, "uid: the account %q has the number %d now, and what is there of %s belongs to %d", n.Login,
			n.UID, principal, had,
		).With(fmt.Sprintf("the administrator gives the account its number %d back; or, once the user has discarded her sessions and jobs, gives %s, and what she has "+
			"in data.areas and elsewhere, to the new one (chown -Rh --from=%d %d:%d) and forgets the old one: %s", had, home, had, n.UID, n.GID, releasing(principal)))
	case other != "":
		return errs.New(
			errs.Conflict, "uid: the account %q has the number %d, which is that of %s here: no two users share one",
			n.Login, n.UID, other,
		).With("the administrator corrects the account, or the rule under identities.accounts that leads to it; if " +
			other + " is there no more: " + releasing(other))
	}
	if err := a.cfg.Store.Put(ctx, bucket, userKey+principal, n.UID); err != nil {
		return err
	}
	if err := a.cfg.Store.Sync(ctx); err != nil { // nothing may be owned by an id that the store could lose
		return err
	}
	a.known[principal], a.owners[n.UID] = n.UID, principal
	return nil
}

// releasing is the command that forgets a user's number.
func releasing(principal string) string { return "`slipway accounts release " + principal + "`" }

// UID returns the number that a user has had here, if any.
func (a *Accounts) UID(ctx context.Context, principal string) (int, bool) {
	a.ids.Lock()
	defer a.ids.Unlock()
	if a.recall(ctx) != nil {
		return 0, false
	}
	uid, ok := a.known[principal]
	return uid, ok
}

// Bound lists who has which number.
func (a *Accounts) Bound(ctx context.Context) (map[string]int, error) {
	a.ids.Lock()
	defer a.ids.Unlock()
	err := a.recall(ctx)
	return maps.Clone(a.known), err
}

// Release forgets a user's number: her next start may have another, and it may become another user's. The caller makes
// sure that no session or job of hers is left that has it. Her home, which no other number is given, and what she has
// in shared areas keep it.
func (a *Accounts) Release(ctx context.Context, principal string) (uid int, err error) {
	a.ids.Lock()
	defer a.ids.Unlock()
	if err := a.recall(ctx); err != nil {
		return 0, err
	}
	uid, ok := a.known[principal]
	if !ok {
		return 0, errs.New(errs.NotFound, "no number is known of a user %.80q", principal).
			With("`slipway accounts` lists them: users of other realms than the site's are @realm/name")
	}
	if err := a.cfg.Store.Delete(ctx, bucket, userKey+principal); err != nil {
		return 0, err
	}
	if err := a.cfg.Store.Sync(ctx); err != nil {
		return 0, err
	}
	delete(a.known, principal)
	if a.owners[uid] == principal {
		delete(a.owners, uid)
	}
	return uid, nil
}
