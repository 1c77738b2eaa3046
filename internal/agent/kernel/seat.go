package kernel

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

const (
	mostSeats = 32
	awayTime  = 24 * time.Hour // how long a client's seat is kept for it
	sweepTime = time.Minute
	// overtaking is how much later a stream may come here than one that its client opened after it: a Jupyter Server
	// connects twice at once. More than that is a clock that was set back.
	overtaking = time.Minute
	anewTime   = 10 * time.Minute // for so long a new client may be one of before the kernel began anew
)

// seat is one client of the kernel's, also while it is away.
type seat struct {
	kernel   *Kernel
	name     string
	unnamed  bool // it cannot come back
	identity []byte

	at   *visit    // its stream; nil: it is away. Under the kernel's lock, as the next
	left time.Time // when it went

	asked []cell          // cells that it has sent and that are not answered
	cell  json.RawMessage // the header of the one that was begun last; nil: none
	lines map[wire.Channel]*line
	taken *wire.Latest[uint64] // what came in line, by its id

	mu      sync.Mutex
	journal journal
	wake    chan struct{} // of the visit

	conns conns
}

// visit is one stream of a client.
type visit struct {
	seat    *seat
	came    int64         // when its client came to the service, in milliseconds; 0: nobody knows
	wake    chan struct{} // holds one thing while there may be something to deliver
	from    uint64        // the number up to which the client has all
	repeats bool          // over another stream its client may send once more what it sends by this one
	again   bool          // it may be another's that comes by this one
	taken   tally         // of its messages
	end     func()
}

// forget has a client that begins anew get nothing of what was kept for it. The lock is held.
func (k *Kernel) forget(name string) {
	s := k.seats[name]
	if s == nil || name == "" {
		return
	}
	if s.at != nil {
		s.at.end()
		s.at = nil
		k.attached--
	}
	k.remove(s)
}

// sit gives a client its seat, or a new one, for a stream. An older stream of the same client is ended: its browser has
// gone and does not know yet.
func (k *Kernel) sit(h wire.Hello, end func()) (*visit, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.Fresh {
		k.forget(h.Client)
	}
	s, came := k.seats[h.Client], h.Came
	if h.Client == "" || s == nil {
		if s = k.newSeat(h.Client); s == nil {
			return nil, errs.New(errs.OverQuota, "the kernel has %d clients already", mostSeats).
				With("close another window on it")
		}
	}
	if s.at != nil {
		if ahead := s.at.came - came; came > 0 && ahead > 0 && ahead < overtaking.Milliseconds() {
			return nil, errs.New(errs.Conflict, "the client has come again since")
		}
		s.at.end()
		k.attached--
	}
	v := &visit{seat: s, came: came, wake: make(chan struct{}, 1), repeats: h.Takes, again: h.Once, end: end}
	s.at = v
	k.attached++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake, v.from = v.wake, s.journal.acked
	return v, nil
}

// newSeat makes a seat, where there is room or somebody is away. The lock is held.
func (k *Kernel) newSeat(name string) *seat {
	if len(k.seats) >= mostSeats && !k.free() {
		return nil
	}
	s := &seat{
		kernel: k, name: name, unnamed: name == "", identity: []byte(wire.NewID()), journal: journal{limit: keptBytes},
		lines: map[wire.Channel]*line{}, taken: wire.NewLatest[uint64](mostTaken),
	}
	if s.unnamed {
		s.name = string(s.identity)
	}
	k.seats[s.name] = s
	if k.cfg.Anew != "" && time.Since(k.born) < anewTime {
		s.restarts() // it waits for answers of the process that is gone
	}
	return s
}

// free removes the seat of the client that is away for longest.
func (k *Kernel) free() bool {
	var longest *seat
	for _, s := range k.seats {
		if s.at == nil && (longest == nil || s.left.Before(longest.left)) {
			longest = s
		}
	}
	if longest == nil {
		return false
	}
	k.remove(longest)
	return true
}

// remove takes a seat away. The lock is held; what closes the sockets may have to wait.
func (k *Kernel) remove(s *seat) {
	delete(k.seats, s.name)
	s.abandon()
	if k.life != nil {
		k.life.during(func(context.Context) { s.close() })
	}
}

// leave ends a visit. The seat stays for a client that has a name.
func (k *Kernel) leave(v *visit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := v.seat
	if s.at != v {
		return
	}
	s.at, s.left = nil, time.Now()
	k.attached--
	if s.unnamed {
		k.remove(s)
	}
}

// sweep removes the seats of those that stay away. The lock is held.
func (k *Kernel) sweep(now time.Time) {
	if now.Sub(k.swept) < sweepTime {
		return
	}
	k.swept = now
	for _, s := range k.seats {
		if s.at == nil && now.Sub(s.left) > awayTime {
			k.remove(s)
		}
	}
}

// broadcast puts a message into every client's journal. There is one copy for all.
func (k *Kernel) broadcast(m wire.Message, keep bool) {
	e := entryOf(m, keep)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acted = time.Now()
	k.sweep(k.acted)
	for _, s := range k.seats {
		s.put(e)
	}
}

func (s *seat) add(m wire.Message, keep bool) { s.put(entryOf(m, keep)) }

func (s *seat) put(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kernel.dropped.Add(int64(s.journal.add(e)))
	wake(s.wake)
}

// wake tells who may be asleep that there may be something to do.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *seat) next(after uint64) entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.next(after)
}

func (s *seat) ack(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if large := s.journal.ack(seq); large > 0 {
		s.kernel.memory.free(large)
	}
}
