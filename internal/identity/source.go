package identity

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/internal/errs"
)

// Numbers are those of a user's account elsewhere: this host's, her Hub's or a table's.
type Numbers struct {
	UID, GID int
	Groups   []Group // beside the first
	Login    string  // the account's name
}

// Group is a group of this host.
type Group struct {
	ID   int
	Name string
}

// Look gives the numbers of a realm's user. errs.Unavailable says that they are not known just now; any other error
// that she has none.
type Look func(ctx context.Context, realm, user string) (Numbers, error)

const (
	leastID    = 1000    // below are the host's own
	leastFirst = 100     // of a first group: Debian's users
	mostID     = 1 << 30 // some tools take greater ones for negative
	nobodyID   = 65534   // what the kernel shows for one that it cannot map
)

// check refuses numbers that no user may have, and leaves out groups that are the host's own: who is in one may be as
// good as root.
func (n Numbers) check() (Numbers, error) {
	switch {
	case n.UID < leastID || n.UID == nobodyID || n.UID > mostID:
		return n, errs.New(errs.Forbidden, "uid: the account %q has the number %d", n.Login, n.UID).
			With(fmt.Sprintf("the administrator gives it one from %d to %d that is not %d", leastID, mostID, nobodyID))
	case n.GID < leastFirst || n.GID == nobodyID || n.GID > mostID:
		return n, errs.New(errs.Forbidden, "gid: the account %q has %d as its first group", n.Login, n.GID).
			With(fmt.Sprintf(
				"the administrator gives it one from %d to %d that is not %d", leastFirst, mostID, nobodyID,
			))
	}
	var kept []Group
	seen := map[int]bool{n.GID: true}
	for _, g := range n.Groups {
		if g.ID < leastID || g.ID == nobodyID || g.ID > mostID || seen[g.ID] {
			continue
		}
		seen[g.ID] = true
		if g.Name == "" || strings.ContainsFunc(g.Name, func(r rune) bool { return r <= ' ' || r == ':' || r == ',' || r == 0x7f }) {
			g.Name = fmt.Sprintf("g%d", g.ID)
		}
		kept = append(kept, g)
	}
	// a directory has no order of its own: the same ones are the same
	slices.SortFunc(kept, func(a, b Group) int { return a.ID - b.ID })
	n.Groups = kept
	return n, nil
}

// plainNumber is how an id is written: no sign, no zero before it, nothing that would be cut.
var plainNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})$`)

// Number reads an id. field names it in the error.
func Number(field, text string) (int, error) {
	if !plainNumber.MatchString(text) {
		return 0, errs.Bad(field, fmt.Sprintf("%.40s", text), "a whole number such as 1001")
	}
	return strconv.Atoi(text)
}

// Remembered asks for the same user once in a while; what has failed is asked for again at once.
func Remembered(look Look, hold time.Duration) Look {
	type answer struct {
		numbers Numbers
		at      time.Time
	}
	var mu sync.Mutex // guards known
	known := map[string]answer{}
	return func(ctx context.Context, realm, user string) (Numbers, error) {
		key := Principal(realm, user)
		mu.Lock()
		a, ok := known[key]
		mu.Unlock()
		if ok && time.Since(a.at) < hold {
			return a.numbers, nil
		}
		n, err := look(ctx, realm, user)
		mu.Lock()
		defer mu.Unlock()
		if delete(known, key); err == nil {
			known[key] = answer{n, time.Now()}
		}
		return n, err
	}
}

// late is the error of a source that does not answer, unless it has said something itself.
func late(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return errs.New(errs.Unavailable, "%s does not answer", what).
			With("try again in a moment; if this lasts, tell your administrator")
	}
	return err
}
