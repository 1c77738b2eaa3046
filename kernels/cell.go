package kernels

import (
	"bytes"
	"encoding/json"
	"sync"

	"slipway/kernels/wire"
)

// cell is the header of the cell that a client has had run last. What this service has to say of a kernel is said under it: frontends show
// what belongs to no cell nowhere but in their logs.
type cell struct {
	mu      sync.Mutex
	session string          // by which the client signs its requests
	header  json.RawMessage // nil: it has run none
}

var runs = []byte(`"execute_input"`)

// says notes what the client sends.
func (c *cell) says(m wire.Message) {
	if m.Type() != "execute_request" {
		return
	}
	session := m.Session()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
}

// hears notes what the kernel says: that it begins to run a cell.
func (c *cell) hears(v1 []byte) {
	if !bytes.Contains(v1[:min(len(v1), wire.CellLimit)], runs) { // as nearly all is, which is not to be looked at for longer
		return
	}
	m, err := wire.DecodeV1(v1)
	if err != nil || m.Type() != "execute_input" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != "" && m.ParentSession() == c.session {
		c.header = bytes.Clone(m.Parent)
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

func (c *cell) last() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}
