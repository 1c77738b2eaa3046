package sshgate

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/devicelogin"
	"slipway/spawner"
)

// one returns the visitor that is there.
func (h *hall) one() *visitor {
	h.t.Helper()
	var found *visitor
	eventually(h.t, "a visitor is there", func() bool {
		h.gate.mu.Lock()
		defer h.gate.mu.Unlock()
		for v := range h.gate.visitors {
			found = v
		}
		return found != nil
	})
	return found
}

// TestLookAgain: who is not known any more does not stay either.
func TestLookAgain(t *testing.T) {
	var gone atomic.Bool
	h := open(t, func(c *Config, _ *hall) {
		c.Known = func(context.Context, Owner) (bool, error) { return !gone.Load(), nil }
	})
	c := h.alice("alice")
	v := h.one()
	v.welcome()
	if out, _, _ := run(t, c, "cat", "hello"); out != "hello" {
		t.Errorf("%q", out)
	}
	gone.Store(true)
	h.gate.known.mu.Lock()
	clear(h.gate.known.until)
	h.gate.known.mu.Unlock()
	v.welcome()
	if err := c.Wait(); err == nil {
		t.Error("the connection ended without an error")
	}
	if why := context.Cause(v.ctx); !strings.Contains(why.Error(), "does not know you") {
		t.Error(why)
	}
}

// TestSuspectGetsIn: a good key opens also where many have failed, at once behind some others, and behind more of them
// later.
func TestSuspectGetsIn(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	for range mostFailures {
		h.gate.door.failed(&guest{from: devicelogin.Source(addr("127.0.0.1"))})
	}
	for n, waits := range map[int]time.Duration{0: 0, mostGuesses - 1: 0, mostGuesses: suspectDelay, mostGuesses + 1: 2 * suspectDelay} {
		var keys []ssh.Signer
		for range n {
			keys = append(keys, newSigner(t))
		}
		cfg := h.clientConfig("alice", nil)
		cfg.Auth = []ssh.AuthMethod{ssh.PublicKeys(append(keys, h.keeper.alice)...)}
		began := time.Now()
		c, err := ssh.Dial("tcp", h.address, cfg)
		if err != nil || time.Since(began) < waits {
			t.Errorf("behind %d others: %v after %s", n, err, time.Since(began))
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// TestMostOfSession: all connections to a session together leave its link room, and what is closed gives room back.
func TestMostOfSession(t *testing.T) {
	h := open(t, nil)
	c := h.alice("alice")
	set := func(n int) {
		h.gate.mu.Lock()
		defer h.gate.mu.Unlock()
		h.gate.streams["s-1"] = n
	}
	streams := func() int {
		h.gate.mu.Lock()
		defer h.gate.mu.Unlock()
		return h.gate.streams["s-1"]
	}
	_, _, _ = run(t, c, "true", "")
	eventually(t, "the connection's own is left", func() bool { return streams() == 1 })
	set(mostOfSession)
	if _, err := c.Dial("tcp", "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "1500 channels open") {
		t.Errorf("one too many: %v", err)
	}
	if _, stderr, err := run(t, h.alice("alice"), "true", ""); err == nil || !strings.Contains(stderr, "1500 channels open") {
		t.Errorf("one connection too many: %q, %v", stderr, err)
	}
	set(1)
	if _, err := c.Dial("tcp", "127.0.0.1:1"); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	eventually(t, "all is given back", func() bool { return streams() == 0 })
}

// TestNewsWaitForNobody: a client that reads nothing holds up no start.
func TestNewsWaitForNobody(t *testing.T) {
	v := &visitor{lines: map[*line]bool{}}
	l := v.newLine(kindSession, "")
	close(l.begun)
	for i := range 10 * mostNews {
		v.tell(strings.Repeat("x", i+1))
	}
	if len(l.news) != mostNews {
		t.Errorf("%d wait", len(l.news))
	}
}

// TestStalledAgent: a session that asks for a channel and then says nothing more keeps no connection whose client has
// gone.
func TestStalledAgent(t *testing.T) {
	t.Parallel()
	var stalled atomic.Bool
	h := open(t, func(c *Config, _ *hall) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, id spawner.ID) (net.Conn, error) {
			if stalled.Load() {
				near, _ := net.Pipe()
				return near, nil
			}
			return dial(ctx, id)
		}
	})
	c := h.alice("alice")
	v := h.one()
	arrived := c.HandleChannelOpen(kindFromTCP)
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		if _, reqs, err := (<-arrived).Accept(); err == nil {
			go ssh.DiscardRequests(reqs)
		}
	}()
	<-v.ready
	v.want(kindFromTCP)
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	stalled.Store(true)
	if err := s.Start("reach"); err != nil {
		t.Fatal(err)
	}
	<-taken
	_ = c.Close()
	eventually(t, "the connection is over", func() bool { return h.gate.Stats().Open == 0 })
}
