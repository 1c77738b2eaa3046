package sshtunnel

import (
	"fmt"

	"golang.org/x/crypto/ssh"
)

// denyKind is the request by which the gateway tells the agent of denied networks, before any of the client's.
const denyKind = "deny@slipway"

type denyFrame struct{ Networks []string }

// sendDeny tells the agent of denied networks. It waits for nothing, so that the answer comes with the one to the
// login.
func (c *Conn) sendDeny(networks []string) error {
	if len(networks) == 0 {
		return nil
	}
	return c.out.send(frameRequest, &requestFrame{denyKind, true, ssh.Marshal(&denyFrame{networks})})
}

// heeds reads whether the agent knows what it was told of: an older one does not.
func (c *Conn) heeds(networks []string) (bool, error) {
	if len(networks) == 0 {
		return true, nil
	}
	kind, size, err := readHeader(c.stream)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrCut, err)
	}
	if kind != frameReply {
		return false, fmt.Errorf("a frame %q for an answer", kind)
	}
	var r replyFrame
	err = readRest(c.stream, size, &r)
	return r.OK, err
}

// Heeds reports whether the agent keeps names from leading into the networks that are denied; one of an older version
// knows of none.
func (c *Conn) Heeds() bool { return c.heedful }

// Deny returns the networks to which no forward is opened: what a name leads to, the session alone finds out.
func (p *Peer) Deny() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deny
}

// forbid notes the networks of a request. The first one counts, which is the gateway's: the client's come behind it.
func (p *Peer) forbid(payload []byte) bool {
	var d denyFrame
	if err := ssh.Unmarshal(payload, &d); err != nil || len(d.Networks) == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deny != nil {
		return false
	}
	p.deny = d.Networks
	return true
}
