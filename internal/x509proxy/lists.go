package x509proxy

import (
	"slices"
	"strings"
)

// List is a revocation list of the directory of authorities.
type List struct {
	Issuer  string // the authority's name
	Trouble string // in words that follow "the list"; empty: it holds
}

// Lists returns the revocation lists, and which of them hold no longer, or not yet: then no proxy of their authority is
// taken. Who has signed them is looked at where they are used.
func (c *Checker) Lists() ([]List, error) {
	a, err := c.trust.read()
	if err != nil {
		return nil, err
	}
	now := c.cfg.Now()
	var all []List
	for _, lists := range a.lists {
		holds, trouble, name := false, "", ""
		for _, l := range lists {
			name = nameOf(l.Issuer)
			switch {
			case now.Before(l.ThisUpdate):
				trouble = "is not valid yet"
			case !l.NextUpdate.IsZero() && now.After(l.NextUpdate):
				trouble = "has expired: " + clock(l.NextUpdate)
			default:
				holds = true
			}
		}
		if holds {
			trouble = ""
		}
		all = append(all, List{Issuer: name, Trouble: trouble})
	}
	slices.SortFunc(all, func(a, b List) int { return strings.Compare(a.Issuer, b.Issuer) })
	return all, nil
}
