package kernel

import (
	"bytes"
	"encoding/json"
	"slices"

	"slipway/kernels/wire"
)

const (
	mostAsked = 1000     // cells of one client that are known while they wait for their answers
	cellLimit = 64 << 10 // of a cell's header that is kept
)

// cell is one that a client has sent and that is not answered.
type cell struct {
	id      string
	channel wire.Channel
	header  json.RawMessage
	silent  bool // nobody looks at it
	begun   bool
}

// asks notes that a client has sent something: its cells are known again by their ids once they run. The lock is held.
func (k *Kernel) asks(s *seat, m wire.Message) {
	k.actLocked()
	if m.Type() != "execute_request" || len(m.Header) > cellLimit {
		return
	}
	var c struct {
		Silent bool `json:"silent"`
	}
	_ = json.Unmarshal(m.Content, &c) // the kernel's own affair
	if len(s.asked) >= mostAsked {
		s.asked = slices.Clone(s.asked[1:])
	}
	s.asked = append(s.asked, cell{id: m.ID(), channel: m.Channel, header: bytes.Clone(m.Header), silent: c.Silent})
}

// runs notes whose cell the kernel begins to run.
func (k *Kernel) runs(m wire.Message) {
	id := m.ParentID()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.seats {
		if i := s.waiting(id); i >= 0 && !s.asked[i].begun {
			s.asked[i].begun = true
			k.begins(s, s.asked[i].header)
		}
	}
}

// answered forgets a cell that has its answer. That comes by another connection than that it runs, and may come before.
func (s *seat) answered(m wire.Message) {
	var c struct {
		Status string `json:"status"`
	}
	_ = json.Unmarshal(m.Content, &c) // the kernel's own affair
	k := s.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	i := s.waiting(m.ParentID())
	if i < 0 {
		return
	}
	done := s.asked[i]
	s.asked = slices.Delete(s.asked, i, i+1)
	if !done.begun && !done.silent && c.Status != "aborted" {
		k.begins(s, done.header)
	}
}

func (s *seat) waiting(id string) int {
	return slices.IndexFunc(s.asked, func(c cell) bool { return c.id == id })
}

// askedOf returns the cells of a client that are not answered, the first of them.
func (k *Kernel) askedOf(s *seat) (list []wire.Asked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	size := 0
	for _, c := range s.asked {
		if size += len(c.header); size > wire.AskedLimit {
			break
		}
		list = append(list, wire.Asked{Channel: c.channel, Header: c.header})
	}
	return list
}

// falls takes the first cell that a process had to run when it ended for begun, where none was: what ends a process at
// once keeps it from saying that it runs.
func (k *Kernel) falls() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.seats {
		first := slices.IndexFunc(s.asked, func(c cell) bool { return !c.silent })
		if first < 0 || slices.ContainsFunc(s.asked, func(c cell) bool { return c.begun }) {
			continue
		}
		k.begins(s, s.asked[first].header)
	}
}

// refuse answers the cells that no process will: there are clients that wait for nothing else. The lock is held.
func (k *Kernel) refuse() {
	failure, reply := wire.Failure(wire.DeadKernel, wire.BegunAnew), wire.Failure(wire.DeadKernel, wire.BegunAnew)
	reply["status"], reply["execution_count"] = "error", 0
	for _, s := range k.seats {
		for _, c := range s.asked {
			if !c.silent {
				k.publish("error", c.header, failure)
			}
			if m, err := wire.New(c.channel, "execute_reply", c.header, reply); err == nil {
				s.add(m, true)
			}
			k.publish("status", c.header, map[string]string{"execution_state": "idle"})
		}
		s.asked = nil
	}
}

// publish tells all clients something in the kernel's place. The lock is held.
func (k *Kernel) publish(kind string, parent json.RawMessage, content any) {
	m, err := wire.New(wire.IOPub, kind, parent, content)
	if err != nil {
		return
	}
	e := entryOf(m, true)
	for _, s := range k.seats {
		s.put(e)
	}
}
