package spawner

import (
	"slices"
	"strings"

	"slipway/internal/errs"
)

// limited reports whether a profile is not everybody's.
func (p Profile) limited() bool { return len(p.Users)+len(p.Groups) > 0 }

// Offers gives what a hub's user may choose from. It is what every list is made of, and what StartSession goes by: no door offers more, and
// none lets in more.
func (m *Manager) Offers(hub string, user User) Catalogue {
	return m.cfg.Catalogue.Only(func(p Profile) bool {
		return !p.limited() || user != "" && m.cfg.Member != nil && m.cfg.Member(hub, user, p)
	})
}

// Only gives the catalogue without the profiles that are not open. It remembers these, for who asks for one of them is to know why not.
func (c Catalogue) Only(open func(Profile) bool) Catalogue {
	all := c.Profiles
	c.Profiles, c.closed = nil, slices.Clip(c.closed)
	for _, p := range all {
		if open(p) {
			c.Profiles = append(c.Profiles, p)
		} else {
			c.closed = append(c.closed, p)
		}
	}
	return c
}

// Offered says whether a profile may be chosen by its name: errs.Forbidden where it is there, but not for whom the catalogue is,
// errs.Invalid where there is none of this name.
func (c Catalogue) Offered(name string) error {
	_, err := c.profile(name)
	return err
}

// Names lists the profiles that may be chosen.
func (c Catalogue) Names() (names []string) {
	for _, p := range c.Profiles {
		names = append(names, p.Name)
	}
	return names
}

// notFor is the error of who asks for a profile that is not open to her. It names no other users.
func (c Catalogue) notFor(p Profile) error {
	remedy := "ask your administrator for it"
	if len(p.Groups) > 0 {
		remedy = "it is for members of " + strings.Join(p.Groups, ", ") + ": ask your administrator to be one"
	}
	if len(c.Profiles) > 0 {
		remedy += ", or choose one of " + strings.Join(c.Names(), ", ")
	}
	return errs.New(errs.Forbidden, "profile %s is not open to you", p.Name).With(remedy)
}

// admits refuses a start with a profile that is not open to the user whose session it would be. What the catalogue does not have is for
// whoever made the spec to know.
func (m *Manager) admits(hub string, user User, profile string) error {
	if err := m.Offers(hub, user).Offered(profile); profile != "" && errs.Is(err, errs.Forbidden) {
		return err
	}
	return nil
}
