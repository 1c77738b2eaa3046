package service

import (
	"maps"
	"slices"
	"strings"

	"slipway/images/records"
	"slipway/internal/hubsync"
	"slipway/internal/identity"
	"slipway/spawner"
)

// groupsOf returns the groups that a user is known to be in; see groupsAt.
func (s *service) groupsOf(hub string, user spawner.User) []string {
	groups, _ := s.groupsAt(hub, user)
	return groups
}

// groupsAt returns a user's groups: those of the configuration, which list users by their names (those of other realms
// than the site's by @realm/name), and those of the Hub by which she comes, as hub:group. No other hub has a say. all
// is false where she may be in more: it is not known just now in which of her Hub's she is.
func (s *service) groupsAt(hub string, user spawner.User) (out []string, all bool) {
	all = true
	for name, members := range s.cfg.Groups {
		if slices.Contains(members, s.principal(hub, user)) {
			out = append(out, name)
		}
	}
	if m := s.membership(hub); m != nil {
		var hers []string
		hers, all = m.Of(user)
		for _, group := range hers {
			name := identity.HubGroup(hub, group)
			out = append(append(out, name), s.joined(name)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), all
}

// fromHub says whether who is in a group rests on a hub's word: it is one of the hub's own, or joined of such.
func (s *service) fromHub(group, hub string) bool {
	own := func(name string) bool { return strings.HasPrefix(name, identity.HubGroup(hub, "")) }
	return own(group) || slices.ContainsFunc(s.cfg.HubGroups.Join[group], own)
}

// joined returns the groups that the configuration has made of a Hub's group and others.
func (s *service) joined(name string) (out []string) {
	for joint, parts := range s.cfg.HubGroups.Join {
		if slices.Contains(parts, name) {
			out = append(out, joint)
		}
	}
	return out
}

// membership is what is known of a hub's groups; nil: nothing ever is.
func (s *service) membership(hub string) *hubsync.Membership {
	for _, p := range s.hubs {
		if p.cfg.Name == hub {
			return p.groups
		}
	}
	return nil
}

// membersOf returns the principals of a group's members, as far as they have ever been told.
func (s *service) membersOf(group string) []string {
	out := slices.Clone(s.cfg.Groups[group])
	for _, part := range append(slices.Clone(s.cfg.HubGroups.Join[group]), group) {
		hub, name, _ := strings.Cut(part, ":")
		if m := s.membership(hub); m != nil {
			for _, user := range m.Members(name) {
				out = append(out, s.principal(hub, user))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// quotasOf returns what bounds the environments of a principal: her own quota, and those of the groups that she is
// known to be in.
func (s *service) quotasOf(owner string) []records.Quota {
	c := s.cfg.Environments
	own, named := c.Quotas.Users[owner]
	if !named {
		own = c.Quota
	}
	var out []records.Quota
	if own > 0 {
		out = append(out, records.Quota{Owners: []string{owner}, Bytes: int64(own)})
	}
	for _, group := range slices.Sorted(maps.Keys(c.Quotas.Groups)) {
		if members := s.membersOf(group); c.Quotas.Groups[group] > 0 && slices.Contains(members, owner) {
			out = append(out, records.Quota{Group: group, Owners: members, Bytes: int64(c.Quotas.Groups[group])})
		}
	}
	return out
}
