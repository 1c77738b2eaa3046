package kernel

import (
	"encoding/json"

	"slipway/kernels/wire"
)

const (
	mostAsked  = 1000     // cells of one client that wait to be run
	mostUntold = 4        // notices that wait for somebody who can be shown them
	cellLimit  = 64 << 10 // of a cell's header that is kept
)

// notice is what is still true for who comes later, as that the variables are gone.
type notice struct {
	text string
	told map[*seat]bool
}

// Tell shows the clients a line that is not the kernel's own, each under the cell that it has run last: there its user looks, and frontends
// show what belongs to no cell nowhere but in their logs. A line that lasts is kept for a client that has run none yet, until its first.
// That something is told is nobody's activity.
func (k *Kernel) Tell(text string, lasts bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := &notice{text: text, told: map[*seat]bool{}}
	seen := false
	for _, s := range k.seats {
		if s.cell == nil && lasts {
			continue
		}
		s.show(text)
		n.told[s] = true
		seen = seen || s.at != nil && s.cell != nil
	}
	if lasts && !seen {
		k.untold = append(k.untold, n)
		k.untold = k.untold[max(len(k.untold)-mostUntold, 0):]
	}
}

// show puts a line into the journal, under the client's last cell. No lack of room drops it. The kernel's lock is held.
func (s *seat) show(text string) {
	m, err := wire.New(wire.IOPub, "stream", s.cell, map[string]string{"name": "stderr", "text": "Slipway: " + text + "\n"})
	if err == nil {
		s.add(m, true)
	}
}

// asks notes that a client has sent something: by the ids of its cells they are known again once they run. Who sends a thousand cells at once
// is not told under the first of them. The lock is held.
func (k *Kernel) asks(s *seat, m wire.Message) {
	k.actLocked()
	if m.Type() != "execute_request" {
		return
	}
	if len(s.asked) >= mostAsked {
		clear(s.asked)
	}
	if s.asked == nil {
		s.asked = map[string]bool{}
	}
	s.asked[m.ID()] = true
}

// runs notes whose cell the kernel begins to run, and shows its client what it has not been told.
func (k *Kernel) runs(m wire.Message) {
	id := m.ParentID()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.seats {
		if !s.asked[id] || len(m.Parent) > cellLimit {
			continue
		}
		delete(s.asked, id)
		s.cell = append(json.RawMessage(nil), m.Parent...)
		for _, n := range k.untold {
			if !n.told[s] {
				s.show(n.text)
			}
		}
		k.untold = nil
	}
}

// cellOf gives the header of a client's last cell; nil: it has run none, or one with a header that is too large for a Welcome.
func (k *Kernel) cellOf(s *seat) json.RawMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(s.cell) > wire.CellLimit {
		return nil
	}
	return s.cell
}
