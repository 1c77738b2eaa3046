package sshauth

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/devicelogin"
	"slipway/internal/errs"
)

// keyLimit is the most keys of one user.
const keyLimit = 50

// usedEvery is how often a use of a key is saved.
const usedEvery = time.Minute

// Key is a public key of a user. One may be several users'.
type Key struct {
	Owner       Owner     `json:"owner"`
	Fingerprint string    `json:"fingerprint"`
	Type        string    `json:"type"`
	Comment     string    `json:"comment,omitempty"`
	Public      string    `json:"public"` // as an authorized_keys file has it, without the comment
	Added       time.Time `json:"added"`
	Used        time.Time `json:"used,omitzero"`
	From        string    `json:"from,omitempty"`
	// Already says, of a key that is added, that it was there. It is not kept.
	Already bool `json:"-"`
}

func (k Key) at() string { return k.Fingerprint + " " + k.Owner.Hub + " " + k.Owner.User }

func (a *Authority) recallKeys(ctx context.Context) error {
	var all []Key
	for r, err := range a.cfg.Store.All(ctx, keysBucket) {
		if err != nil {
			return err
		}
		var k Key
		if err := json.Unmarshal(r.Value, &k); err != nil {
			return fmt.Errorf("read the ssh key %s: %w", r.Key, err)
		}
		all = append(all, k)
	}
	slices.SortStableFunc(all, func(x, y Key) int { return x.Added.Compare(y.Added) })
	for _, k := range all {
		a.keys[k.Fingerprint] = append(a.keys[k.Fingerprint], k)
	}
	return nil
}

// AddKey makes a public key, given as ssh-keygen writes it, one of its owner's. Adding it again changes its comment. A
// person has it at one of her hubs alone: nothing that ssh says would tell which of them is meant.
func (a *Authority) AddKey(ctx context.Context, owner Owner, text, comment string) (Key, error) {
	key, own, err := ParseKey(text)
	if err != nil {
		return Key{}, err
	}
	a.change.Lock()
	defer a.change.Unlock()
	k := Key{
		Owner: owner, Fingerprint: ssh.FingerprintSHA256(key), Type: key.Type(), Comment: cmp.Or(devicelogin.Label(comment), own),
		Public: plain(key),
		Added:  time.Now().UTC(),
	}
	old, already := a.key(owner, k.Fingerprint)
	if already {
		k.Added, k.Used, k.From, k.Comment = old.Added, old.Used, old.From, cmp.Or(k.Comment, old.Comment)
	} else if hub := a.elsewhere(owner, k.Fingerprint); hub != "" {
		return Key{}, errs.New(
			errs.Conflict, "this key gets you to your sessions at the Hub %s, and a key leads to one Hub", hub,
		).With(fmt.Sprintf("add another key here, or remove this one there first; or `slipway ssh login --hub %s --name %s`, which makes its own", owner.Hub, owner.Hub))
	} else if len(a.Keys(owner)) >= keyLimit {
		return Key{}, errs.New(errs.OverQuota, "you have %d keys, and more are not kept", keyLimit).
			With("remove one that you do not use any more")
	} else if a.disputes(owner, k.Fingerprint) {
		a.cfg.Logger.Warn(
			"an ssh key by which somebody else comes in was not added", "key", k.Fingerprint, "user", owner.User, "hub",
			owner.Hub,
		)
		return Key{}, errs.New(errs.Conflict, "somebody else comes in by this key already").
			With("if it is you, remove it there first; or make a new one with `ssh-keygen -t ed25519`; `slipway ssh login` needs none")
	}
	if err := a.save(ctx, keysBucket, k.at(), k); err != nil {
		return Key{}, err
	}
	a.put(k)
	k.Already = already
	return k, nil
}

// RemoveKey takes a key away from its owner; whoever is in by it is told of.
func (a *Authority) RemoveKey(ctx context.Context, owner Owner, fingerprint string) error {
	a.change.Lock()
	defer a.change.Unlock()
	k, ok := a.key(owner, fingerprint)
	if !ok {
		return errs.New(errs.NotFound, "you have no key %.100q", fingerprint).
			With("the list of your keys has their fingerprints")
	}
	if err := a.drop(ctx, keysBucket, k.at()); err != nil {
		return err
	}
	a.mu.Lock()
	a.keys[fingerprint] = slices.DeleteFunc(
		slices.Clone(a.keys[fingerprint]), func(k Key) bool { return k.Owner == owner },
	)
	if len(a.keys[fingerprint]) == 0 {
		delete(a.keys, fingerprint)
	}
	a.mu.Unlock()
	a.tell(func(p Pass) bool { return p.Owner == owner && p.Key == fingerprint && p.Serial == 0 })
	return nil
}

// Keys returns an owner's keys, the newest first.
func (a *Authority) Keys(owner Owner) (list []Key) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, all := range a.keys {
		for _, k := range all {
			if k.Owner == owner {
				list = append(list, k)
			}
		}
	}
	slices.SortFunc(
		list, func(x, y Key) int { return cmp.Or(y.Added.Compare(x.Added), cmp.Compare(x.Fingerprint, y.Fingerprint)) },
	)
	return list
}

// findLocked returns the place of an owner's key among those of its fingerprint; -1: it is not there.
func (a *Authority) findLocked(owner Owner, fingerprint string) int {
	return slices.IndexFunc(a.keys[fingerprint], func(k Key) bool { return k.Owner == owner })
}

func (a *Authority) key(owner Owner, fingerprint string) (Key, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if i := a.findLocked(owner, fingerprint); i >= 0 {
		return a.keys[fingerprint][i], true
	}
	return Key{}, false
}

// put keeps a key in memory, in place of what was there.
func (a *Authority) put(k Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.keys[k.Fingerprint])
	if i := a.findLocked(k.Owner, k.Fingerprint); i >= 0 {
		all[i] = k
	} else {
		all = append(all, k)
	}
	a.keys[k.Fingerprint] = all
}

// Used notes that somebody has come in.
func (a *Authority) Used(p Pass, from netip.Addr) {
	if p.Serial != 0 || p.Key == "" {
		return
	}
	a.change.Lock()
	defer a.change.Unlock()
	k, ok := a.key(p.Owner, p.Key)
	now, address := time.Now().UTC(), from.Unmap().String()
	if !ok || k.From == address && now.Sub(k.Used) < usedEvery {
		return
	}
	k.Used, k.From = now, address
	if err := a.cfg.Store.Put(context.Background(), keysBucket, k.at(), k); err != nil {
		a.cfg.Logger.Warn("the use of an ssh key is not saved", "error", err)
	}
	a.put(k)
}
