package kernel

import (
	"encoding/json"

	"slipway/kernels/wire"
)

const mostUntold = 4 // notices that wait for somebody who can be shown them

// notice is what is still true for who comes later, as that the variables are gone.
type notice struct {
	text string
	told map[*seat]bool
}

// Tell shows the clients a line that is not the kernel's own, each under the cell that it has run last: there its user
// looks, and frontends show what belongs to no cell nowhere but in their logs. A line that lasts is kept for a client
// that has run none yet, until its first. That something is told is nobody's activity.
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
	m, err := wire.New(
		wire.IOPub, "stream", s.cell, map[string]string{"name": "stderr", "text": "Slipway: " + text + "\n"},
	)
	if err == nil {
		s.add(m, true)
	}
}

// begins notes which cell of a client's is the last that was begun, and shows the client what it has not been told. The
// lock is held.
func (k *Kernel) begins(s *seat, cell json.RawMessage) {
	s.cell = cell
	for _, n := range k.untold {
		if !n.told[s] {
			s.show(n.text)
		}
	}
	k.untold = nil
}

// cellOf returns the header of a client's last cell; nil: it has run none, or one with a header that is too large for a
// Welcome.
func (k *Kernel) cellOf(s *seat) json.RawMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(s.cell) > wire.CellLimit {
		return nil
	}
	return s.cell
}
