package sshgate

import (
	"maps"

	"slipway/internal/metrics"
)

// Stats says what goes on.
func (g *Gate) Stats() metrics.SSH {
	g.mu.Lock()
	open := len(g.visitors)
	g.mu.Unlock()
	g.door.mu.Lock()
	unproved := g.door.guests.all
	g.door.mu.Unlock()
	g.counts.mu.Lock()
	defer g.counts.mu.Unlock()
	return metrics.SSH{
		Open: open, Unproved: unproved, Read: g.counts.read.Load(), Written: g.counts.written.Load(),
		Logins: maps.Clone(g.counts.logins), Channels: maps.Clone(g.counts.channels),
	}
}

// countLine counts a channel. Kinds that are not known are one.
func (g *Gate) countLine(kind string) {
	switch kind {
	case kindSession, kindTCP, kindUnix, kindFromTCP, kindFromUnx, kindAgent, kindX11:
	default:
		kind = "other"
	}
	g.counts.mu.Lock()
	defer g.counts.mu.Unlock()
	g.counts.channels[kind]++
}
