package sshd

import (
	"os"
	"sync"
	"sync/atomic"

	"slipway/internal/sshtunnel"
)

// guest is one connection: what it has open beside its channels.
type guest struct {
	server *Server
	peer   *sshtunnel.Peer
	noMore atomic.Bool // sessions

	mu        sync.Mutex
	channels  int
	listeners map[string]*listener
	agent     string // the socket that leads to the client's ssh agent; empty: none yet
	dir       string // the private one; empty: none yet
	work      sync.WaitGroup
}

func newGuest(s *Server, p *sshtunnel.Peer) *guest {
	return &guest{server: s, peer: p, listeners: map[string]*listener{}}
}

// enter counts a channel; leave must follow where it is let in.
func (g *guest) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.channels >= maxChannels {
		return false
	}
	g.channels++
	g.server.pulse.open.Add(1)
	return true
}

func (g *guest) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.channels--
	g.server.pulse.open.Add(-1)
}

// privateDir returns the directory that goes with the connection, and makes it when it is first wanted.
func (g *guest) privateDir() (dir string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dir == "" {
		g.dir, err = os.MkdirTemp("", "ssh-")
	}
	return g.dir, err
}

// close ends what the connection has open. Its channels have ended.
func (g *guest) close() {
	g.mu.Lock()
	for _, l := range g.listeners {
		l.close()
	}
	dir := g.dir
	g.mu.Unlock()
	g.work.Wait()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
}
