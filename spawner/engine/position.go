package engine

import (
	"cmp"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
)

// Queue says why and how long a workload waits for room.
func (m *Manager) Queue(w spawner.Workload) spawner.Queue {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e := m.work[w.ID]
	if e == nil || !e.InQueue() {
		return spawner.Queue{}
	}
	return m.queueLocked(e)
}

// Room says whether a session of resources r, with the slice of a GPU that g asks for, could start now on a backend; empty:
// Config.Sessions. How long a Remote lets it wait there is not known.
func (m *Manager) Room(backend string, r spawner.Resources, g gpu.Request) spawner.Room {
	m.mu.RLock()
	defer m.mu.RUnlock()
	backend = cmp.Or(backend, m.cfg.Sessions)
	return m.roomForLocked(spawner.Workload{Backend: backend, Remote: m.remote(backend), Spec: spawner.Spec{Resources: r, GPU: g}})
}

// roomForLocked says so of a workload that has not been asked for yet.
func (m *Manager) roomForLocked(w spawner.Workload) spawner.Room {
	w.Turn = m.turn + 1
	l, g := lineOf(w), w.LocalGPU()
	standbys := m.standbysHoldLocked(func(*entry) bool { return true }) // they give way to whoever asks
	book := m.ledger.plus(-1, standbys)
	room := spawner.Room{Waiting: len(m.index.lines[l]), Lacks: book.lacks(l.backend, w.Spec.Resources), Estimate: -1}
	room.Most, room.Free = book.room(l.backend, w.Spec.Resources)
	if !g.None() {
		m.roomOnGPUsLocked(&room, g, m.slices.heldBeside(standbys))
	}
	if w.Kind == spawner.Job {
		room.Lacks = cmp.Or(m.whyBarredLocked(clientOf(w), l), room.Lacks)
	}
	if first := m.headLocked(l); room.Lacks == "" && first != nil && !m.beforeLocked(candidateOf(&w), candidateOf(&first.Workload)) {
		room.Lacks = "others wait in line"
	}
	if room.Lacks == "" {
		room.Lacks = m.yieldsLocked(w, grant{})
	}
	if room.Lacks != "" {
		room.Estimate = m.estimateLocked(l, m.aheadLocked(&w)+1)
	}
	return room
}

// Census counts the active sessions of a hub by what per says of each; empty words are not counted.
func (m *Manager) Census(hub string, per func(spawner.Workload) string) map[string]int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	count := map[string]int{}
	for _, e := range m.work {
		if e.Kind == spawner.Job || e.Standby != "" || e.Hub != hub || !e.Phase.Active() {
			continue
		}
		if word := per(e.Workload); word != "" {
			count[word]++
		}
	}
	return count
}

// What is looked at to estimate a wait: the releases of the last hours.
const (
	releaseSpan  = 6 * time.Hour
	releaseCount = 20
	fewReleases  = 3
)

// releases are the times at which a backend's resources were given back, oldest first.
type releases []time.Time

func (r releases) add(at time.Time) releases {
	r = append(r, at)
	if len(r) > releaseCount {
		r = r[len(r)-releaseCount:]
	}
	return r
}

// estimate returns how long the one at place waits if room comes free as often as of late; negative when too little is known.
func (r releases) estimate(place int, now time.Time) time.Duration {
	for len(r) > 0 && now.Sub(r[0]) > releaseSpan {
		r = r[1:]
	}
	if len(r) < fewReleases {
		return -1
	}
	return time.Duration(place) * now.Sub(r[0]) / time.Duration(len(r))
}

func (m *Manager) estimateLocked(l line, place int) time.Duration {
	return m.releases[l].estimate(place, time.Now())
}
