package kernelproxy

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

// clients are those that have connected to the kernel's sockets.
type clients struct {
	key      *wire.Key
	kernel   string // its id, for topics
	log      *slog.Logger
	patience time.Duration // as Config has it
	take     func(ctx context.Context, from *peer, m wire.Message)

	mu    sync.Mutex
	peers map[wire.Channel]map[string]*peer
	work  sync.WaitGroup
}

// peer is one connection of a client's.
type peer struct {
	*zmtp.Socket
	channel  wire.Channel
	identity string // which a client's connections to different channels share

	mu     sync.Mutex
	topics []string // iopub: what it has subscribed to
}

// accept serves the connections to one socket until ctx ends.
func (c *clients) accept(ctx context.Context, l net.Listener, serve func(context.Context, net.Conn)) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.work.Go(func() { serve(ctx, conn) })
	}
}

// serve serves one connection to the socket of a channel.
func (c *clients) serve(channel wire.Channel) func(context.Context, net.Conn) {
	kind := "ROUTER"
	if channel == wire.IOPub {
		kind = "XPUB"
	}
	return func(ctx context.Context, conn net.Conn) {
		s, err := zmtp.Open(ctx, conn, kind, nil)
		if err != nil {
			c.log.Debug("a client does not speak as clients do", "channel", channel, "error", err)
			return
		}
		p := &peer{Socket: s, channel: channel, identity: s.Peer()}
		if p.identity == "" || channel == wire.IOPub {
			p.identity = wire.NewID()
		}
		c.join(p)
		defer c.leave(p)
		c.work.Go(s.Write)
		for {
			frames, err := s.Receive()
			if err != nil {
				return
			}
			if channel == wire.IOPub {
				c.subscribe(p, frames[0])
				continue
			}
			m, err := c.key.Parse(channel, frames)
			if err == nil {
				err = m.Check()
			}
			if err != nil {
				c.log.Warn("a client's message is left out", "channel", channel, "error", err)
				continue
			}
			c.take(ctx, p, m)
		}
	}
}

// echo answers heartbeats.
func (c *clients) echo(ctx context.Context, conn net.Conn) {
	s, err := zmtp.Open(ctx, conn, "REP", nil)
	if err != nil {
		return
	}
	defer s.Close()
	c.work.Go(s.Write)
	for {
		frames, err := s.Receive()
		if err != nil || s.Send(frames) != nil {
			return
		}
	}
}

// join has answers to an identity go by this connection. One before it with the same, if it is still there, gets those
// to what came by it.
func (c *clients) join(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers[p.channel][p.identity] = p
}

func (c *clients) leave(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers[p.channel][p.identity] == p {
		delete(c.peers[p.channel], p.identity)
	}
	p.Close()
}

// subscribe notes which topics a client wants, and says as kernels do that it will get them.
func (c *clients) subscribe(p *peer, frame []byte) {
	const most = 1000
	if len(frame) == 0 {
		return
	}
	topic := string(frame[1:])
	p.mu.Lock()
	at := slices.Index(p.topics, topic)
	switch {
	case frame[0] == 1 && len(p.topics) < most:
		p.topics = append(p.topics, topic)
	case frame[0] == 0 && at >= 0:
		p.topics = slices.Delete(p.topics, at, at+1)
	}
	p.mu.Unlock()
	if frame[0] != 1 {
		return
	}
	if m, err := wire.New(wire.IOPub, "iopub_welcome", nil, map[string]string{"subscription": topic}); err == nil {
		_ = p.Send(append([][]byte{[]byte(topic)}, c.key.Frames(m)...))
	}
}

func (p *peer) wants(topic string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.topics, func(t string) bool { return strings.HasPrefix(topic, t) })
}

// say tells the clients something. It waits for those that take nothing.
func (c *clients) say(ctx context.Context, w word) {
	if w.to == nil {
		c.publish(ctx, w.m)
		return
	}
	c.reply(w.to, w.m)
}

// reply gives a message to the client that has sent a request by a connection, also if that is another now.
func (c *clients) reply(to *peer, m wire.Message) {
	if to.channel == m.Channel && to.Send(c.key.Frames(m)) == nil {
		return
	}
	c.mu.Lock()
	p := c.peers[m.Channel][to.identity]
	c.mu.Unlock()
	if p == nil {
		c.log.Debug("nobody waits for an answer any more", "channel", m.Channel, "type", m.Type())
		return
	}
	if err := p.Send(c.key.Frames(m)); err != nil {
		c.log.Warn("a client does not take an answer", "channel", m.Channel, "error", err)
	}
}

// publish gives a message to all clients that want it. It waits for slow ones.
func (c *clients) publish(ctx context.Context, m wire.Message) {
	topic := "kernel." + c.kernel + "." + m.Type()
	frames := append([][]byte{[]byte(topic)}, c.key.Frames(m)...)
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.peers[wire.IOPub]))
	c.mu.Unlock()
	for _, p := range all {
		if !p.wants(topic) {
			continue
		}
		if err := p.SendSoon(ctx, frames, c.patience); err != nil && ctx.Err() == nil {
			c.log.Warn("a client takes nothing of what is printed: its connection is ended", "error", err)
			p.Close()
		}
	}
}
