package service

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"slipway/hubapi"
	"slipway/internal/metrics"
	"slipway/spawner"
)

// recent is for how long a look at a user's directories counts for who asks again.
const recent = 5 * time.Second

// quota is server.Config.Quota: it looks, unless somebody has a moment ago. Nothing is made for it.
func (s *service) quota(ctx context.Context, c spawner.Caller) (hubapi.Quotas, error) {
	principal := s.principal(c.Hub, c.User)
	s.homeMounts.mu.Lock()
	known, ok := s.homeMounts.known[principal]
	s.homeMounts.mu.Unlock()
	if ok && time.Since(known.at) < recent {
		return hubapi.Quotas{User: string(c.User), Quotas: known.rows, At: known.at.UTC()}, nil
	}
	got, err, _ := s.homeMounts.looking.Do(principal, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		a, err := s.account(ctx, c.Hub, c.User)
		if err != nil {
			return nil, err
		}
		return s.lookAtAll(ctx, c.Hub, c.User, a), nil
	})
	if err != nil {
		return hubapi.Quotas{}, err
	}
	return hubapi.Quotas{User: string(c.User), Quotas: got.([]hubapi.Quota), At: time.Now().UTC()}, nil
}

// lookAtAll looks at the home and at the areas that a user may write to.
func (s *service) lookAtAll(ctx context.Context, hub string, user spawner.User, a spawner.Account) []hubapi.Quota {
	home, err := s.homeMounts.Homes.Find(ctx, s.homeNow(hub, user, a))
	rows := []hubapi.Quota{QuotaOf(homeName, a.Home, home, err)}
	for i, found := range s.lookAtAreas(ctx, hub, user, a, false) {
		if area := s.cfg.Data.Areas[i]; area.Write && found != nil {
			rows = append(rows, QuotaOf(area.Name, area.Where(), found.Found, found.err))
		}
	}
	s.homeMounts.note(s.principal(hub, user), rows)
	return rows
}

// knownQuota is what was last found of the directories of a workload's owner, for pages, which do not wait.
func (s *service) knownQuota(w spawner.Workload) []hubapi.Quota {
	if w.Remote || !w.Kind.Session() {
		return nil
	}
	s.homeMounts.mu.Lock()
	defer s.homeMounts.mu.Unlock()
	return s.homeMounts.known[s.principal(w.Hub, w.Owner)].rows
}

// watchHomes looks from time to time at the directories of those who have sessions, and tells them when one fills up.
func (s *service) watchHomes(ctx context.Context) error {
	tick := time.NewTicker(time.Duration(s.cfg.Users.Home.PollInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		s.lookAtHomes(ctx)
	}
}

// housedSessions returns the sessions that run on this host, by whose they are.
func (s *service) housedSessions(ctx context.Context) map[spawner.Principal][]spawner.Workload {
	all, _ := s.engine.List(ctx, spawner.Caller{System: true}) // it fails for no such caller
	out := map[spawner.Principal][]spawner.Workload{}
	for _, w := range all {
		if w.Kind.Session() && !w.Remote && w.Phase == spawner.Running {
			out[w.Principal()] = append(out[w.Principal()], w)
		}
	}
	return out
}

// lookAtHomes makes one round: one user after the other, for nobody waits for it.
func (s *service) lookAtHomes(ctx context.Context) {
	counts := metrics.Homes{Over: map[[2]string]int{}, Trouble: map[string]int{}}
	people := s.housedSessions(ctx)
	for p, sessions := range people {
		rows := s.lookAtAll(ctx, p.Hub, p.User, sessions[0].Account)
		if ctx.Err() != nil {
			return
		}
		for _, q := range rows {
			if q.Trouble != "" {
				counts.Trouble[q.Name]++
				continue
			}
			for _, mark := range s.cfg.Users.Home.Warn {
				if q.Percent >= mark {
					counts.Over[[2]string{q.Name, strconv.Itoa(mark)}]++
				}
			}
			if mark := s.passes(p.Hub, p.User, q); mark > 0 {
				s.tellFilling(ctx, sessions, q, mark)
			}
		}
	}
	s.homeMounts.count(counts, people, s.principal)
}

// tellFilling tells the people in a user's sessions.
func (s *service) tellFilling(ctx context.Context, sessions []spawner.Workload, q hubapi.Quota, mark int) {
	text := fmt.Sprintf("%s is more than %d %% full: %s. `slipway quota` shows it, and `slipway home usage` what is big", q.Path, mark, hubapi.QuotaWords(q))
	for _, w := range sessions {
		s.log.Info("a session is told that its home or an area fills up", "id", w.ID, "text", text)
		s.engine.Tell(ctx, w.ID, text)
	}
}

// count keeps the numbers of a round, and forgets users who have no sessions.
func (h *HomeMounts) count(m metrics.Homes, people map[spawner.Principal][]spawner.Workload, principal func(string, spawner.User) string) {
	here := map[string]bool{}
	for p := range people {
		here[principal(p.Hub, p.User)] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts = m
	for who, found := range h.known {
		if !here[who] && time.Since(found.at) > time.Hour {
			delete(h.known, who)
		}
	}
}

// metrics returns the numbers of the last round.
func (h *HomeMounts) metrics() metrics.Homes {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts
}
