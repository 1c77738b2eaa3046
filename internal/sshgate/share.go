package sshgate

import (
	"golang.org/x/crypto/ssh"

	"slipway/internal/errs"
	"slipway/internal/sshtunnel"
	"slipway/spawner"
)

// mostOfSession is how many streams all ssh connections to one session may have. Its link carries 2048, and the
// session's pages and what the service itself asks the agent need theirs too.
const mostOfSession = 1500

// takeStream counts a stream to a session, if it may have one more.
func (g *Gate) takeStream(id spawner.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams[id] >= mostOfSession {
		return false
	}
	g.streams[id]++
	return true
}

// releaseStream gives it back.
func (g *Gate) releaseStream(id spawner.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streams[id]--; g.streams[id] <= 0 {
		delete(g.streams, id)
	}
}

// reach opens the far end of a channel. What it takes, drop gives back.
func (l *line) reach(open func() (*sshtunnel.Channel, error)) (*sshtunnel.Channel, error) {
	if !l.v.g.takeStream(l.v.session.ID) {
		return nil, &sshtunnel.Refusal{Reason: uint32(ssh.ResourceShortage), Message: errTooMany.Error()}
	}
	l.taken = true
	return open()
}

// errTooMany is said where a session has no room for one more.
var errTooMany = errs.New(errs.OverQuota, "the ssh connections to this session have %d channels open", mostOfSession).
	With("close some first")
