package homemounts

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

// Quota says how full the directories of a user are: it looks, unless somebody has a moment ago. Nothing is made for
// it.
func (m *Mounts) Quota(ctx context.Context, c spawner.Caller) (hubapi.Quotas, error) {
	principal := m.cfg.Principal(c.Hub, c.User)
	m.mu.Lock()
	known, ok := m.known[principal]
	m.mu.Unlock()
	if ok && time.Since(known.at) < recent {
		return hubapi.Quotas{User: string(c.User), Quotas: known.rows, At: known.at.UTC()}, nil
	}
	got, err, _ := m.looking.Do(principal, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		a, err := m.cfg.Account(ctx, c.Hub, c.User)
		if err != nil {
			return nil, err
		}
		return m.lookAtAll(ctx, c.Hub, c.User, a), nil
	})
	if err != nil {
		return hubapi.Quotas{}, err
	}
	return hubapi.Quotas{User: string(c.User), Quotas: got.([]hubapi.Quota), At: time.Now().UTC()}, nil
}

// lookAtAll looks at the home and at the areas that a user may write to.
func (m *Mounts) lookAtAll(ctx context.Context, hub string, user spawner.User, a spawner.Account) []hubapi.Quota {
	home, err := m.Homes.Find(ctx, m.homeNow(hub, user, a))
	rows := []hubapi.Quota{QuotaOf(homeName, a.Home, home, err)}
	for i, found := range m.lookAtAreas(ctx, hub, user, a, false) {
		if area := m.cfg.Site.Data.Areas[i]; area.Write && found != nil {
			rows = append(rows, QuotaOf(area.Name, area.Where(), found.Found, found.err))
		}
	}
	m.note(m.cfg.Principal(hub, user), rows)
	return rows
}

// KnownQuota is what was last found of the directories of a workload's owner, for pages, which do not wait.
func (m *Mounts) KnownQuota(w spawner.Workload) []hubapi.Quota {
	if w.Remote || w.Kind.Batch() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[m.cfg.Principal(w.Hub, w.Owner)].rows
}

// Watch looks from time to time at the directories of those who have sessions, and tells them when one fills up.
func (m *Mounts) Watch(ctx context.Context) error {
	tick := time.NewTicker(time.Duration(m.cfg.Site.Users.Home.PollInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		m.lookAtHomes(ctx)
	}
}

// housedSessions returns the sessions that run on this host, by whose they are.
func (m *Mounts) housedSessions(ctx context.Context) map[spawner.Principal][]spawner.Workload {
	out := map[spawner.Principal][]spawner.Workload{}
	for _, w := range m.cfg.Workloads(ctx) {
		if w.Kind.Session() && !w.Remote && w.Phase == spawner.Running {
			out[w.Principal()] = append(out[w.Principal()], w)
		}
	}
	return out
}

// lookAtHomes makes one round: one user after the other, for nobody waits for it.
func (m *Mounts) lookAtHomes(ctx context.Context) {
	counts := metrics.Homes{Over: map[[2]string]int{}, Trouble: map[string]int{}}
	people := m.housedSessions(ctx)
	for p, sessions := range people {
		rows := m.lookAtAll(ctx, p.Hub, p.User, sessions[0].Account)
		if ctx.Err() != nil {
			return
		}
		for _, q := range rows {
			if q.Trouble != "" {
				counts.Trouble[q.Name]++
				continue
			}
			for _, mark := range warnAt() {
				if q.Percent >= mark {
					counts.Over[[2]string{q.Name, strconv.Itoa(mark)}]++
				}
			}
			if mark := m.passes(p.Hub, p.User, q); mark > 0 {
				m.tellFilling(ctx, sessions, q, mark)
			}
		}
	}
	m.count(counts, people)
}

// tellFilling tells the people in a user's sessions.
func (m *Mounts) tellFilling(ctx context.Context, sessions []spawner.Workload, q hubapi.Quota, mark int) {
	text := fmt.Sprintf(
		"%s is more than %d %% full: %s. `slipway quota` shows it, and `slipway home usage` what is big",
		q.Path, mark, hubapi.QuotaWords(q),
	)
	for _, w := range sessions {
		m.cfg.Logger.Info("a session is told that its home or an area fills up", "id", w.ID, "text", text)
		m.cfg.Tell(ctx, w.ID, text)
	}
}

// count keeps the numbers of a round, and forgets users who have no sessions.
func (m *Mounts) count(counts metrics.Homes, people map[spawner.Principal][]spawner.Workload) {
	here := map[string]bool{}
	for p := range people {
		here[m.cfg.Principal(p.Hub, p.User)] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts = counts
	for who, found := range m.known {
		if !here[who] && time.Since(found.at) > time.Hour {
			delete(m.known, who)
		}
	}
}

// Metrics returns the numbers of the last round.
func (m *Mounts) Metrics() metrics.Homes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts
}
