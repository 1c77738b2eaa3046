package sshauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway/internal/clock"
)

const (
	// lookEvery is how often the hubs are asked whether they still know whoever could come in. Who comes in is asked
	// for then, too.
	lookEvery = 10 * time.Minute
	// goneAfter is how long a hub must not have known an owner before what lets her in is removed. That cannot be
	// undone, and a Hub may come up without its database, or with an old one.
	goneAfter = 24 * time.Hour
	// A hub that does not know more than half of its owners, and more than fewGone, has rather lost its database.
	fewGone = 3

	missingBucket = "ssh-missing"
)

// missing is the record of an owner whom her hub does not know.
type missing struct {
	Owner Owner     `json:"owner"`
	Since time.Time `json:"since"` // when the hub said so first; it has not known her since
}

func (m missing) at() string { return m.Owner.Hub + " " + m.Owner.User }

func (a *Authority) recallMissing(ctx context.Context) error {
	for r, err := range a.cfg.Store.All(ctx, missingBucket) {
		if err != nil {
			return err
		}
		var m missing
		if err := json.Unmarshal(r.Value, &m); err != nil {
			return fmt.Errorf("read since when a hub does not know a user (%s): %w", r.Key, err)
		}
		a.missing[m.Owner] = m
	}
	return nil
}

// forget takes everything away that lets an owner in, and ends her connections: her hub has said for long that it has
// no such user. Whoever is given her name there later must not find her keys open his sessions.
func (a *Authority) forget(ctx context.Context, owner Owner) error {
	var all []error
	keys, certificates := a.Keys(owner), a.Certificates(owner)
	for _, k := range keys {
		all = append(all, a.RemoveKey(ctx, owner, k.Fingerprint))
	}
	for _, c := range certificates {
		all = append(all, a.Revoke(ctx, owner, c.Serial))
	}
	a.End(owner)
	a.cfg.Logger.Warn("the Hub has not known a user for long: what let her in by ssh is removed", "user", owner.User, "hub", owner.Hub,
		"keys", len(keys), "certificates", len(certificates))
	return errors.Join(all...)
}

// owners returns all who have a key or a certificate.
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
	return slices.SortedFunc(
		maps.Keys(have), func(x, y Owner) int { return strings.Compare(x.Hub+" "+x.User, y.Hub+" "+y.User) },
	)
}

// Follow forgets until ctx ends whom the hubs have not known for long. gone says of an owner whether her hub has no
// such user; it is asked for one after the other, and what it cannot find out is looked at again the next time: unknown
// is not gone.
func (a *Authority) Follow(ctx context.Context, gone func(context.Context, Owner) (bool, error)) error {
	for {
		a.look(ctx, gone)
		if !clock.Sleep(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}

// look asks for all owners once, and then judges each hub's answers together.
func (a *Authority) look(ctx context.Context, gone func(context.Context, Owner) (bool, error)) {
	owners, asked := a.owners(), time.Now().UTC()
	answers := map[string]map[Owner]bool{} // by hub: those for whom it has answered, and whether they are gone
	for _, o := range owners {
		is, err := gone(ctx, o)
		if err != nil {
			continue
		}
		if answers[o.Hub] == nil {
			answers[o.Hub] = map[Owner]bool{}
		}
		answers[o.Hub][o] = is
	}
	for hub, all := range answers {
		believed := a.believes(hub, all)
		for o, is := range all {
			a.note(ctx, o, is && believed, asked, gone)
		}
	}
	for o := range a.missing { // of whom nothing is left to be removed
		if !slices.Contains(owners, o) {
			a.found(ctx, o)
		}
	}
}

// believes says whether a hub may be believed whom it does not know.
func (a *Authority) believes(hub string, answers map[Owner]bool) bool {
	n := 0
	for _, is := range answers {
		if is {
			n++
		}
	}
	if n <= fewGone || 2*n <= len(answers) {
		return true
	}
	a.cfg.Logger.Warn("a Hub does not know most of those who have ssh keys: they may not come in, and nothing of theirs is removed", "hub", hub,
		"unknown", n, "of", len(answers), "remedy", "look whether the Hub has lost its database")
	return false
}

// note keeps what a hub has said of an owner: since when it does not know her. After long she is forgotten, if it still
// says so.
func (a *Authority) note(
	ctx context.Context, o Owner, is bool, asked time.Time, gone func(context.Context, Owner) (bool, error),
) {
	m, before := a.missing[o]
	switch {
	case !is:
		a.found(ctx, o)
	case !before:
		a.lost(ctx, missing{o, asked})
	case asked.Sub(m.Since) >= goneAfter:
		if still, err := gone(ctx, o); err != nil || !still { // the others took their time to be asked for
			return
		}
		if err := a.forget(ctx, o); err != nil {
			a.cfg.Logger.Warn(
				"what lets a user in by ssh whom the Hub does not know any more is not removed", "user", o.User, "hub",
				o.Hub, "error", err,
			)
			return
		}
		a.found(ctx, o)
	}
}

// lost notes that a hub does not know an owner, and ends her connections.
func (a *Authority) lost(ctx context.Context, m missing) {
	if err := a.save(ctx, missingBucket, m.at(), m); err != nil {
		a.cfg.Logger.Warn(
			"since when the Hub does not know a user is not saved", "user", m.Owner.User, "hub", m.Owner.Hub, "error",
			err,
		)
		return
	}
	a.missing[m.Owner] = m
	a.End(m.Owner)
	a.cfg.Logger.Warn("the Hub does not know a user: she may not come in by ssh, and if it stays so, what lets her in is removed", "user", m.Owner.User,
		"hub", m.Owner.Hub, "after", goneAfter)
}

// found removes the record of an owner's absence: her hub knows her again, or is not believed, or nothing is left of
// her.
func (a *Authority) found(ctx context.Context, o Owner) {
	m, ok := a.missing[o]
	if !ok {
		return
	}
	if err := a.drop(ctx, missingBucket, m.at()); err != nil {
		a.cfg.Logger.Warn(
			"since when the Hub did not know a user is not forgotten", "user", o.User, "hub", o.Hub, "error", err,
		)
		return
	}
	delete(a.missing, o)
}
