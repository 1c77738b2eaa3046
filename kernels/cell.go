package kernels

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"slipway/kernels/wire"
)

// cell is the cell that a client has had run last. What this service has to say of a kernel is said under it: frontends show what belongs to
// no cell nowhere but in their logs.
type cell struct {
	mu      sync.Mutex
	session string          // by which the client signs its requests
	header  json.RawMessage // nil: it has run none
	id      string          // of the one that runs, in that header; empty: none does
}

// What tells of a cell, by the way how it is written: nearly nothing is, and the rest is not to be looked at for longer.
var (
	runs  = []byte(`"execute_input"`)
	rests = []byte(`"idle"`)
)

// says notes what the client sends. Nobody calls herself by a name that is not to be remembered for as long as she is here.
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
}

// hears notes what the kernel says: that it begins to run a cell, or has run it.
func (c *cell) hears(v1 []byte) {
	begin := v1[:min(len(v1), wire.CellLimit)]
	if !bytes.Contains(begin, runs) && !bytes.Contains(begin, rests) {
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

// running gives the header of the cell that runs, nil for none.
func (c *cell) running() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == "" {
		return nil
	}
	return c.header
}

// last gives the header of the cell that runs, or has run last, nil for none.
func (c *cell) last() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}
