package sshauth

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Hub is a hub whose users may come in. Users of one name at hubs of one realm are one person; of different realms they
// are strangers.
type Hub struct{ Name, Realm string }

// person is who an owner is.
type person struct{ realm, user string }

// place returns the place of a hub among the configured ones; -1: it is none of them, and nobody vouches for its users.
func (a *Authority) place(hub string) int {
	return slices.IndexFunc(a.cfg.Hubs, func(h Hub) bool { return h.Name == hub })
}

// person says who an owner of a configured hub is; false: her hub is none.
func (a *Authority) person(o Owner) (person, bool) {
	at := a.place(o.Hub)
	if at < 0 {
		return person{}, false
	}
	return person{a.cfg.Hubs[at].Realm, o.User}, true
}

// checkKey finds whose key it is among those whose name the login begins with. Public keys are public, and nobody has
// to show that she holds one when she adds it: where it is several people's, it is the one's who has come in by it;
// where that is nobody or several, it lets nobody in, for it could be into a stranger's session. AddKey leaves a person
// with it at one hub; where she has it at several all the same, for the configuration has made one person of two since,
// or she had added it before that was refused, her hubs are taken in the configuration's order.
func (a *Authority) checkKey(login string, key ssh.PublicKey) (Pass, error) {
	fingerprint := ssh.FingerprintSHA256(key)
	a.mu.RLock()
	all := a.keys[fingerprint]
	a.mu.RUnlock()
	fits, used := map[person]Owner{}, map[person]bool{}
	for _, k := range all {
		p, known := a.person(k.Owner)
		if _, ok := Target(login, k.Owner.User); !ok || !known {
			continue
		}
		if first, ok := fits[p]; !ok || a.place(k.Owner.Hub) < a.place(first.Hub) {
			fits[p] = k.Owner
		}
		used[p] = used[p] || !k.Used.IsZero()
	}
	proved := slices.Contains(slices.Collect(maps.Values(used)), true)
	maps.DeleteFunc(fits, func(p person, _ Owner) bool { return used[p] != proved })
	switch owners := slices.Collect(maps.Values(fits)); len(owners) {
	case 0:
		return Pass{}, refused("the key is not one of this user's")
	case 1:
		return Pass{Owner: owners[0], Key: fingerprint, Session: AnySession}, nil
	default:
		return Pass{}, a.disputed(fingerprint, owners)
	}
}

// disputed says to the service's log that a key is several people's.
func (a *Authority) disputed(fingerprint string, owners []Owner) error {
	var names []string
	for _, o := range owners {
		names = append(names, fmt.Sprintf("%q of the hub %s", o.User, o.Hub))
	}
	slices.Sort(names)
	a.cfg.Logger.Warn("ssh refused: a key is several people's, and it is not known who of them holds it", "key", fingerprint,
		"owners", strings.Join(names, ", "), "remedy", "whoever holds it adds a new key, or logs in by `slipway ssh login`; the others remove it")
	return refused("the key is several people's")
}

// elsewhere returns another hub at which the key is the same person's; empty: there is none.
func (a *Authority) elsewhere(owner Owner, fingerprint string) string {
	me, known := a.person(owner)
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, k := range a.keys[fingerprint] {
		if other, ok := a.person(k.Owner); ok && known && other == me && k.Owner != owner {
			return k.Owner.Hub
		}
	}
	return ""
}

// disputes reports whether a key that owner wants to add opens the sessions of somebody else by a name that could be
// hers.
func (a *Authority) disputes(owner Owner, fingerprint string) bool {
	me, _ := a.person(owner)
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.ContainsFunc(a.keys[fingerprint], func(k Key) bool {
		other, _ := a.person(k.Owner) // whom nobody vouches for has no name
		_, longer := Target(me.user, other.user)
		_, shorter := Target(other.user, me.user)
		return other != me && (longer || shorter) && !k.Used.IsZero()
	})
}

// Target takes a user's name off a login name, which is the name alone, or has + and more behind it: where she wants to
// get to. Names may hold pluses themselves, so that only who has proved herself says where hers ends.
func Target(login, user string) (target string, ok bool) {
	if user == "" {
		return "", false
	}
	if login == user {
		return "", true
	}
	return strings.CutPrefix(login, user+"+")
}
