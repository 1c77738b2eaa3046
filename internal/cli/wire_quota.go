//go:build linux

package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"slipway/hubapi"
	"slipway/internal/homes"
	"slipway/internal/metrics"
	"slipway/spawner"
)

// recent is for how long a look at a user's directories counts for who asks again.
const recent = 5 * time.Second

// quota is server.Config.Quota: it looks, unless somebody has a moment ago. Nothing is made for it.
func (s *service) quota(ctx context.Context, c spawner.Caller) (hubapi.Quotas, error) {
	principal := s.principal(c.Hub, c.User)
	s.housing.mu.Lock()
	known, ok := s.housing.known[principal]
	s.housing.mu.Unlock()
	if ok && time.Since(known.at) < recent {
		return hubapi.Quotas{User: string(c.User), Quotas: known.rows, At: known.at.UTC()}, nil
	}
	got, err, _ := s.housing.looking.Do(principal, func() (any, error) { return s.lookAtAll(context.WithoutCancel(ctx), c.Hub, c.User) })
	if err != nil {
		return hubapi.Quotas{}, err
	}
	return hubapi.Quotas{User: string(c.User), Quotas: got.([]hubapi.Quota), At: time.Now().UTC()}, nil
}

// lookAtAll looks at the home and at the areas that a user may write to.
func (s *service) lookAtAll(ctx context.Context, hub string, user spawner.User) ([]hubapi.Quota, error) {
	a, err := s.account(ctx, hub, user)
	if err != nil {
		return nil, err
	}
	want := s.homeOf(hub, user, a)
	want.Create = false
	home, err := s.housing.homes.Find(ctx, want)
	rows := []hubapi.Quota{quotaOf(homeName, a.Home, home, err)}
	for i, found := range s.lookAtAreas(ctx, hub, user, a, false) {
		if area := s.cfg.Data.Areas[i]; area.Write && found != nil {
			rows = append(rows, quotaOf(area.Name, area.Where(), found.Found, found.err))
		}
	}
	s.housing.note(s.principal(hub, user), rows)
	return rows, nil
}

// knownQuota is what was last found of the directories of a workload's owner, for pages, which do not wait.
func (s *service) knownQuota(w spawner.Workload) []hubapi.Quota {
	if w.Remote || w.Kind == spawner.Job {
		return nil
	}
	s.housing.mu.Lock()
	defer s.housing.mu.Unlock()
	return s.housing.known[s.principal(w.Hub, w.Owner)].rows
}

// watchHomes looks from time to time at the directories of those who have sessions, and tells them when one fills up.
func (s *service) watchHomes(ctx context.Context) error {
	alarm := homes.Alarm{Marks: s.cfg.Users.Home.Warn}
	tick := time.NewTicker(time.Duration(s.cfg.Users.Home.Every))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		s.lookAtHomes(ctx, &alarm)
	}
}

// person is a user of a hub.
type person struct {
	hub  string
	user spawner.User
}

// housedSessions gives the sessions that run on this host, by whose they are.
func (s *service) housedSessions(ctx context.Context) map[person][]spawner.ID {
	all, _ := s.engine.List(ctx, spawner.Caller{System: true}) // it fails for no such caller
	out := map[person][]spawner.ID{}
	for _, w := range all {
		if w.Kind != spawner.Job && !w.Remote && w.Phase == spawner.Running {
			p := person{w.Hub, w.Owner}
			out[p] = append(out[p], w.ID)
		}
	}
	return out
}

// lookAtHomes makes one round: one user after the other, for nobody waits for it.
func (s *service) lookAtHomes(ctx context.Context, alarm *homes.Alarm) {
	var seen []string
	counts := metrics.Homes{Over: map[[2]string]int{}, Trouble: map[string]int{}}
	people := s.housedSessions(ctx)
	for p, sessions := range people {
		rows, err := s.lookAtAll(ctx, p.hub, p.user)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Debug("a user's directories cannot be looked at", "user", p.user, "error", err)
			continue
		}
		for _, q := range rows {
			what := s.principal(p.hub, p.user) + " " + q.Name
			seen = append(seen, what)
			if q.Trouble != "" {
				counts.Trouble[q.Name]++
				continue
			}
			for _, mark := range alarm.Marks {
				if q.Percent >= mark {
					counts.Over[[2]string{q.Name, strconv.Itoa(mark)}]++
				}
			}
			if mark := alarm.See(what, q.Percent); mark > 0 {
				s.tellFilling(ctx, sessions, q, mark)
			}
		}
	}
	alarm.Keep(seen)
	s.housing.count(counts, people, s.principal)
}

// tellFilling tells the people in a user's sessions.
func (s *service) tellFilling(ctx context.Context, sessions []spawner.ID, q hubapi.Quota, mark int) {
	text := fmt.Sprintf("%s is more than %d %% full: %s. `slipway quota` shows it, and `slipway home usage` what is big", q.Path, mark, hubapi.QuotaWords(q))
	for _, id := range sessions {
		s.log.Info("a session is told that its home or an area fills up", "id", id, "text", text)
		s.engine.Tell(ctx, id, text)
	}
}

// count keeps the numbers of a round, and forgets users who have no sessions.
func (h *housing) count(m metrics.Homes, people map[person][]spawner.ID, principal func(string, spawner.User) string) {
	var known []string
	for p := range people {
		known = append(known, principal(p.hub, p.user))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = m
	for who, found := range h.known {
		if !slices.Contains(known, who) && time.Since(found.at) > time.Hour {
			delete(h.known, who)
		}
	}
}

// metrics gives the numbers of the last round.
func (h *housing) metrics() metrics.Homes {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}
