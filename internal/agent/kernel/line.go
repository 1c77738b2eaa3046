package kernel

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"time"

	"slipway/internal/clock"
	"slipway/kernels/wire"
)

const (
	mostTaken   = 1 << 18  // messages of one client that are remembered: more than a bridge may have to send once more
	lineBytes   = 32 << 20 // that wait for the kernel on one channel, until the client is listened to no more
	lineCount   = 1 << 12  // and messages
	redialEvery = 500 * time.Millisecond
	endless     = 365 * 24 * time.Hour // a process may compute for so long
)

// line is what a client has said on one channel and the kernel has not taken yet. Each channel has its own: an
// interrupt and the answer to a question do not wait behind cells. It belongs to the seat and not to a stream, so that
// what has come once is not lost with the service.
type line struct {
	waits []request
	bytes int
	by    *life         // that takes from it now; nil: nobody does
	room  chan struct{} // closed when something was taken; nil: nobody waits for that
}

// request is one message of a client's, and how to tell that it was taken.
type request struct {
	wire.Message
	taken func()
}

func (l *line) full() bool { return l.bytes > lineBytes || len(l.waits) >= lineCount }

func (l *line) push(r request) { l.waits, l.bytes = append(l.waits, r), l.bytes+r.Size() }

func (l *line) pop() request {
	r := l.waits[0]
	l.waits[0] = request{}
	if l.waits, l.bytes = l.waits[1:], l.bytes-r.Size(); len(l.waits) == 0 {
		l.waits = nil
	}
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
	return r
}

// line returns the seat's line of a channel. The kernel's lock is held.
func (s *seat) line(c wire.Channel) *line {
	if s.lines[c] == nil {
		s.lines[c] = &line{}
	}
	return s.lines[c]
}

// readable reads a client's message, as far as that is needed to give it to the kernel.
func readable(v1 []byte) (wire.Message, error) {
	m, err := wire.DecodeV1(v1)
	if err == nil {
		err = m.Check()
	}
	if err == nil && m.Channel == wire.IOPub {
		err = fmt.Errorf("the channel %s leads from the kernel alone", m.Channel)
	}
	return m, err
}

var errOver = errors.New("the stream is over: its client has come again, or is gone")

// pass puts a visitor's message in line for the kernel, once there is room.
func (k *Kernel) pass(ctx context.Context, v *visit, r request) error {
	id := uint64(0)
	if name := r.ID(); name != "" && (v.repeats || v.again) {
		id = maphash.String(k.seed, name)
	}
	for {
		begin, room, err := k.enqueue(v, r, id)
		if begin != nil {
			begin.during(func(ctx context.Context) { k.hand(ctx, begin, v.seat, r.Channel) })
		}
		if room == nil || err != nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enqueue puts a message in line, and gives the life that is to begin taking from there, if one is. Where there is no
// room it gives a channel that is closed when there may be. One that comes once more is as good as taken: the first is
// in line or with the kernel.
func (k *Kernel) enqueue(v *visit, r request, id uint64) (begin *life, room <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := v.seat
	line := s.line(r.Channel)
	switch {
	case s.at != v:
		return nil, nil, errOver
	case line.full():
		if line.room == nil {
			line.room = make(chan struct{})
		}
		return nil, line.room, nil
	case id != 0 && !s.taken.First(id) && v.again:
		r.taken()
		return nil, nil, nil
	}
	k.asks(s, r.Message)
	line.push(r)
	return k.takes(line), nil, nil
}

// takes returns the life that is to begin taking from a line; nil: none, or one does. The lock is held.
func (k *Kernel) takes(line *line) *life {
	l := k.life
	if l == nil || l.answered.IsZero() || l.asked || line.by == l || len(line.waits) == 0 {
		return nil
	}
	line.by = l
	return l
}

// resume has a process that is up take what has come while there was none.
func (k *Kernel) resume(l *life) {
	k.mu.Lock()
	var work []func(context.Context)
	for _, s := range k.seats {
		for c, line := range s.lines {
			if k.takes(line) == l {
				work = append(work, func(ctx context.Context) { k.hand(ctx, l, s, c) })
			}
		}
	}
	k.mu.Unlock()
	for _, f := range work {
		l.during(f)
	}
}

// abandon leaves out what waits for a process that has ended, or is about to: it may need what is gone with that, and
// clients take it for refused when they hear of the end. The lock is held.
func (k *Kernel) abandon() {
	for _, s := range k.seats {
		s.abandon()
	}
}

func (s *seat) abandon() {
	for _, line := range s.lines {
		for len(line.waits) > 0 {
			line.pop().taken()
		}
	}
	s.asked = nil
}

// hand gives a process what waits in a line, until there is nothing or the process is about to end.
func (k *Kernel) hand(ctx context.Context, l *life, s *seat, c wire.Channel) {
	for {
		r, ok := k.nextOf(l, s, c)
		if !ok {
			return
		}
		if err := s.send(ctx, l, r.Message); err != nil && ctx.Err() == nil {
			k.cfg.Logger.Warn("a client's message has not reached the kernel", "channel", c, "error", err)
		}
		r.taken()
	}
}

func (k *Kernel) nextOf(l *life, s *seat, c wire.Channel) (request, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	line := s.line(c)
	if line.by != l {
		return request{}, false
	}
	if len(line.waits) == 0 || l.asked || k.life != l {
		line.by = nil
		return request{}, false
	}
	return line.pop(), true
}

// send sends a message to the process of a life, when that takes it. A process that was stopped takes none, not even a
// connection, until it goes on.
func (s *seat) send(ctx context.Context, l *life, m wire.Message) error {
	frames := s.kernel.key.Frames(m)
	for {
		socket, err := s.socket(ctx, l, m.Channel)
		if err == nil {
			if err = socket.SendSoon(ctx, frames, endless); err == nil || !errors.Is(err, net.ErrClosed) {
				return err
			}
			s.lost(m.Channel, socket)
		}
		if errors.Is(err, errOver) || !clock.Sleep(ctx, redialEvery) {
			return err
		}
	}
}
