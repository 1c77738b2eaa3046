package kernel

import (
	"encoding/json"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/kernels/wire"
)

const mostBusy = 1000 // requests at once

// work is a request that the kernel works on.
type work struct {
	kind string
	at   time.Time
}

// unanswered reports whether nothing but an idle status ends a request. That is said on a channel that may drop it; a
// kernel that looked busy for ever would never be culled.
func (w work) unanswered() bool { return strings.HasPrefix(w.kind, "comm_") }

// printed takes what the kernel publishes, for all clients. What comes of the agent's own requests is not for them.
func (k *Kernel) printed(m wire.Message) {
	kind, ends := m.Type(), false
	switch kind {
	case "iopub_welcome":
		return
	case "status":
		if m.ParentSession() == wire.Session {
			return
		}
		ends = k.note(m) == control.KernelIdle
	}
	k.broadcast(m, ends)
	if kind == "execute_input" {
		k.runs(m)
	}
}

// note follows what the kernel works on: it may work on several requests at once, each of which begins and ends.
func (k *Kernel) note(m wire.Message) control.KernelState {
	var c struct {
		State control.KernelState `json:"execution_state"`
	}
	if err := json.Unmarshal(m.Content, &c); err != nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch id := m.ParentID(); {
	case c.State == control.KernelBusy && len(k.busy) < mostBusy:
		k.busy[id] = work{m.ParentType(), time.Now()}
	case c.State == control.KernelIdle:
		delete(k.busy, id)
	}
	k.workOrRest()
	return c.State
}

// done says that requests are not worked on any more. An answer is an end as well: that the kernel is idle may be among
// what libzmq has dropped.
func (k *Kernel) done(ids ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		delete(k.busy, id)
	}
	k.workOrRest()
}

// lasting returns the requests without an answer that seem to be worked on for long.
func (k *Kernel) lasting(now time.Time) (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, w := range k.busy {
		if w.unanswered() && now.Sub(w.at) >= k.cfg.Heal {
			ids = append(ids, id)
		}
	}
	return ids
}

// workOrRest sets the state of a kernel that answers. The lock is held.
func (k *Kernel) workOrRest() {
	if k.life == nil || k.life.answered.IsZero() || k.life.asked {
		return
	}
	if k.state = control.KernelIdle; len(k.busy) > 0 {
		k.state = control.KernelBusy
	}
}

func (k *Kernel) act() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.actLocked()
}

func (k *Kernel) actLocked() { k.acted = time.Now() }
