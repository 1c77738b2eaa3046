package kernel

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/kernels/zmtp"
)

const (
	mostSeats = 32
	awayTime  = 24 * time.Hour // how long a client's seat is kept for it
	sweepTime = time.Minute
	// overtaking is how much later a stream may come here than one that its client opened after it: a Jupyter Server connects twice at once.
	// More than that is a clock that was set back.
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

	asked map[string]bool // ids of cells that it has sent and that have not begun
	cell  json.RawMessage // the header of the one that was begun last; nil: none

	mu      sync.Mutex
	journal journal
	wake    chan struct{}        // of the visit
	taken   *wire.Latest[string] // ids of what it has sent

	sending sync.Mutex
	life    *life // that the sockets belong to
	sockets map[wire.Channel]*zmtp.Socket
	gone    context.Context // over when the seat is no more
	remove  func()
}

// visit is one stream of a client.
type visit struct {
	seat *seat
	came int64         // when its client came to the service, in milliseconds; 0: nobody knows
	wake chan struct{} // holds one thing while there may be something to deliver
	from uint64        // the number up to which the client has all
	end  func()
}

// sit gives a client its seat, or a new one, for a stream. An older stream of the same client is ended: its browser has gone and does
// not know yet.
func (k *Kernel) sit(name string, came int64, end func()) (*visit, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.seats[name]
	if name == "" || s == nil {
		if s = k.newSeat(name); s == nil {
			return nil, errs.New(errs.OverQuota, "the kernel has %d clients already", mostSeats).With("close another window on it")
		}
	}
	if s.at != nil {
		if ahead := s.at.came - came; came > 0 && ahead > 0 && ahead < overtaking.Milliseconds() {
			return nil, errs.New(errs.Conflict, "the client has come again since")
		}
		s.at.end()
		k.attached--
	}
	v := &visit{seat: s, came: came, wake: make(chan struct{}, 1), end: end}
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
	s := &seat{kernel: k, name: name, unnamed: name == "", identity: []byte(wire.NewID()), journal: journal{limit: keptBytes}}
	s.gone, s.remove = context.WithCancel(context.Background())
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

func (k *Kernel) remove(s *seat) {
	delete(k.seats, s.name)
	s.remove()
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

// broadcast puts a message into every client's journal.
func (k *Kernel) broadcast(m wire.Message) {
	data := wire.EncodeV1(m)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acted = time.Now()
	k.sweep(k.acted)
	for _, s := range k.seats {
		s.add(data, false)
	}
}

func (s *seat) add(data []byte, keep bool) { s.put(entry{data: data, keep: keep}) }

func (s *seat) put(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.add(e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *seat) next(after uint64) (uint64, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.next(after)
}

func (s *seat) ack(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.ack(seq)
}

// send sends a message to the process of a life, by the seat's own sockets: all have one identity, by which the kernel finds the way back
// for an answer and for a question.
func (s *seat) send(l *life, m wire.Message) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.life != l {
		s.life, s.sockets = l, nil
		if err := s.connect(l); err != nil {
			s.life = nil
			return err
		}
	}
	return s.sockets[m.Channel].Send(s.kernel.key.Frames(m))
}

func (s *seat) connect(l *life) error {
	sockets := map[wire.Channel]*zmtp.Socket{}
	for _, c := range []wire.Channel{wire.Stdin, wire.Shell, wire.Control} {
		one, err := l.connect(l.ctx, c, "DEALER", s.identity)
		if err != nil {
			for _, c := range sockets {
				c.Close()
			}
			return err
		}
		l.receive(one, c, s.kernel.act, func(m wire.Message) {
			if c != wire.Stdin {
				s.kernel.replied(m.ParentID())
			}
			s.add(wire.EncodeV1(m), true)
		})
		context.AfterFunc(s.gone, one.Close)
		sockets[c] = one
	}
	s.sockets = sockets
	return nil
}
