package hubsync

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"slipway/hubapi/hub"
	"slipway/internal/clock"
	"slipway/spawner"
)

const (
	groupsTime = time.Minute     // for one reading of the Hub's list
	firstAsk   = 2 * time.Second // within which the Hub is asked at first: until then it is not known who is in a group
)

// Membership is what a Hub last said of who is in which of its groups. What the Hub has not confirmed for some time is
// not known any more, until it confirms it again: a right that rests on it has ended, and nobody is told that she has
// none.
type Membership struct {
	fresh time.Duration

	mu      sync.Mutex // guards what follows
	asked   time.Time  // when the question began that all below answers; zero: nothing is known
	groups  map[spawner.User][]string
	members map[string][]spawner.User
}

// NewMembership makes one that knows nothing yet, and forgets what was not confirmed for as long as fresh.
func NewMembership(fresh time.Duration) *Membership { return &Membership{fresh: fresh} }

// Of returns the groups that a user is in now; false: that is not known.
func (m *Membership) Of(user spawner.User) ([]string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked.IsZero() || time.Since(m.asked) >= m.fresh {
		return nil, false
	}
	return slices.Clone(m.groups[user]), true
}

// Members returns who was in a group when the Hub last told, however long ago: a bound on what a group may use outlives
// a Hub that is down, a right does not.
func (m *Membership) Members(group string) []spawner.User {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.members[group])
}

// Set takes what the Hub answered to a question that began at asked.
func (m *Membership) Set(asked time.Time, list []hub.Group) {
	groups, members := map[spawner.User][]string{}, map[string][]spawner.User{}
	for _, g := range list {
		for _, name := range g.Users {
			groups[spawner.User(name)] = append(groups[spawner.User(name)], g.Name)
			members[g.Name] = append(members[g.Name], spawner.User(name))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked, m.groups, m.members = asked, groups, members
}

// followGroups asks the Hub from time to time who is in its groups.
func (s *Syncer) followGroups(ctx context.Context) {
	t := trouble{log: s.log, what: "learn who is in the Hub's groups"}
	for wait := rand.N(firstAsk); clock.Sleep(ctx, wait); wait = about(s.cfg.GroupsEvery) {
		t.note(ctx, s.groupsOnce(ctx))
	}
}

func (s *Syncer) groupsOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, groupsTime)
	defer cancel()
	asked := time.Now() // who leaves a group while the Hub answers may still be in its answer
	list, err := s.cfg.Hub.Groups(ctx)
	if err != nil {
		return err
	}
	s.cfg.Groups.Set(asked, list)
	return nil
}
