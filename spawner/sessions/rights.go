package sessions

import (
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Offers returns what a hub's user may choose from. It is what every list is made of, and what StartSession goes by: no
// door offers more, and none lets in more.
func (s *Sessions) Offers(hub string, user spawner.User) catalog.Catalogue {
	return s.cfg.Catalogue.Only(func(p catalog.Profile) (bool, error) {
		if !p.Restricted() {
			return true, nil
		}
		if user == "" || s.cfg.Member == nil {
			return false, nil
		}
		return s.cfg.Member(hub, user, p)
	})
}

// admits refuses a start with a profile that is not surely open to the user whose session it would be. What the
// catalogue does not have is for whoever made the spec to know.
func (s *Sessions) admits(hub string, user spawner.User, profile string) error {
	if profile == "" {
		return nil
	}
	return s.Offers(hub, user).Admits(profile)
}
