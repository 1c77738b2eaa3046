package catalog

import (
	"slices"
	"strings"

	"slipway/internal/errs"
)

// Restricted reports whether a profile is not everybody's.
func (p Profile) Restricted() bool { return len(p.Users)+len(p.Groups) > 0 }

// closed is a profile that somebody may not choose.
type closed struct {
	Profile
	unsure error // why it is not known whether it is open to her; nil: it surely is not
}

// Only returns a site's catalogue without the profiles that are not open, and those of which open does not know it. It
// remembers these, for who asks for one of them is to know why not, and for unknown is not no: none stands for one that
// may be hers.
func (c Catalogue) Only(open func(Profile) (bool, error)) Catalogue {
	var hers, perhaps []Profile
	c.closed, c.doubt = nil, nil
	for _, p := range c.Profiles {
		is, err := open(p)
		if is || err != nil {
			perhaps = append(perhaps, p)
		}
		if is && err == nil {
			hers = append(hers, p)
		} else {
			c.closed = append(c.closed, closed{p, err})
		}
	}
	c.Profiles = hers
	if i := slices.IndexFunc(c.closed, func(p closed) bool { return p.unsure != nil && p.Name == perhaps[standard(perhaps)].Name }); i >= 0 {
		c.doubt = &c.closed[i]
	}
	return c
}

// Offered says whether a profile may be chosen by its name; empty: by none. errs.Forbidden where it is there, but not
// for whom the catalogue is, errs.Unavailable where that is not known just now, errs.Invalid where there is none of
// this name.
func (c Catalogue) Offered(name string) error {
	_, err := c.profile(name)
	return err
}

// Admits is Offered, but for what the catalogue does not have: that is for others to refuse.
func (c Catalogue) Admits(name string) error {
	if err := c.Offered(name); errs.Is(err, errs.Forbidden) || errs.Is(err, errs.Unavailable) {
		return err
	}
	return nil
}

// Names lists the profiles that may be chosen.
func (c Catalogue) Names() (names []string) {
	for _, p := range c.Profiles {
		names = append(names, p.Name)
	}
	return names
}

// notFor is the error of who asks for a profile that is not open to her. It names no other users.
func (c Catalogue) notFor(p closed) error {
	err, remedy := errs.New(errs.Forbidden, "profile %s is not open to you", p.Name), "ask your administrator for it"
	switch {
	case p.unsure != nil:
		err = errs.New(errs.Unavailable, "whether profile %s is open to you is not known: %w", p.Name, p.unsure)
		remedy = "try again in a moment"
	case len(p.Groups) > 0:
		remedy = "it is for members of " + strings.Join(p.Groups, ", ") + ": ask your administrator to be one"
	}
	if len(c.Profiles) > 0 {
		remedy += ", or choose one of " + strings.Join(c.Names(), ", ")
	}
	return err.With(remedy)
}
