package kernels

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"slipway/kernels/wire"
)

// cell is the cell that a client has had run last. What this service has to say of a kernel is said under it: frontends
// show what belongs to no cell nowhere but in their logs.
type cell struct {
	mu      sync.Mutex
	session string          // by which the client signs its requests
	header  json.RawMessage // nil: it has run none
	id      string          // of the one that runs, in that header; empty: none does
	waiting []asked         // cells that are not answered, in order
	bytes   int             // of their headers
}

// asked is a cell that a client waits for.
type asked struct {
	channel wire.Channel
	id      string
	header  json.RawMessage
}

const waitingBytes = 256 << 10 // of the headers of one client's cells that are known while they wait for answers

// What tells of a cell, by the way how it is written: nearly nothing is, and the rest is not to be looked at for
// longer.
var (
	runs    = []byte(`"execute_input"`)
	rests   = []byte(`"idle"`)
	answers = []byte(`"execute_reply"`)
)

// says notes what the client sends. Nobody calls herself by a name that is not to be remembered for as long as she is
// here.
func (c *cell) says(m wire.Message) {
	if m.Type() != "execute_request" {
		return
	}
	session := m.Session()
	if len(session) > wire.ClientLimit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	c.wait(asked{m.Channel, m.ID(), m.Header})
}

// wait notes that a cell is to be answered. The lock is held.
func (c *cell) wait(a asked) {
	n := len(a.header)
	known := slices.ContainsFunc(c.waiting, func(o asked) bool { return o.id == a.id })
	if n > wire.CellLimit || c.bytes+n > waitingBytes || known {
		return
	}
	a.header = bytes.Clone(a.header)
	c.waiting, c.bytes = append(c.waiting, a), c.bytes+n
}

// asks takes the word of the kernel's agent, which cells were not answered before the client has come back.
func (c *cell) asks(list []wire.Asked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range list {
		if len(a.Header) > 0 && a.Header[0] == '{' {
			c.wait(asked{a.Channel, a.ID(), a.Header})
		}
	}
}

// answered forgets a cell. The lock is held.
func (c *cell) answered(id string) {
	i := slices.IndexFunc(c.waiting, func(a asked) bool { return a.id == id })
	if i < 0 {
		return
	}
	c.bytes -= len(c.waiting[i].header)
	if c.waiting = slices.Delete(c.waiting, i, i+1); len(c.waiting) == 0 {
		c.waiting = nil
	}
}

// waits reports whether a cell is not answered.
func (c *cell) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0
}

// takeAll returns the cells that are not answered, and forgets them.
func (c *cell) takeAll() []asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting
	c.waiting, c.bytes = nil, 0
	return all
}

// inherit takes over what is known of the cells of a client that is here no more.
func (c *cell) inherit(from *cell) {
	older := from.takeAll()
	header := from.last()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range older {
		c.bytes += len(a.header)
	}
	c.waiting = append(older, c.waiting...)
	if c.header == nil {
		c.header = header
	}
}

// hears notes what the kernel says: that it begins to run a cell, or has run it.
func (c *cell) hears(v1 []byte) {
	begin := v1[:min(len(v1), wire.CellLimit)]
	if !bytes.Contains(begin, runs) && !bytes.Contains(begin, rests) && !bytes.Contains(begin, answers) {
		return
	}
	m, err := wire.DecodeV1(v1)
	if err != nil || len(m.Parent) > wire.CellLimit {
		return
	}
	kind, parent := m.Type(), m.ParentID()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case kind == "execute_reply" && m.Channel != wire.IOPub:
		c.answered(parent)
	case kind == "execute_input" && c.session != "" && m.ParentSession() == c.session:
		c.header, c.id = bytes.Clone(m.Parent), parent
	case kind == "status" && parent == c.id && strings.Contains(string(m.Content), "idle"):
		c.id = ""
	}
}

// recalls takes the word of the kernel's agent, of which cell it was before the client has come back.
func (c *cell) recalls(header json.RawMessage) {
	if len(header) == 0 || header[0] != '{' {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.header == nil {
		c.header = header
	}
}

// running returns the header of the cell that runs, nil for none.
func (c *cell) running() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == "" {
		return nil
	}
	return c.header
}

// last returns the header of the cell that runs, or has run last, nil for none.
func (c *cell) last() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}
