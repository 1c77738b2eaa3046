package kernels

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"slipway/kernels/wire"
)

// mostAhead is how many messages of one client the kernel may not have taken. Who says more is not listened to for so
// long. Its agent remembers more of them, so that what is sent once more is not taken twice.
const mostAhead = 4096

// said is a message of a client's. It takes room until the kernel has it.
type said struct {
	v1   []byte
	size int64 // of the room
	at   time.Time
}

// outbox has what a client has said, in order, until the kernel has taken it: what was on its way when that broke is
// sent once more.
type outbox struct {
	mu    sync.Mutex
	kept  []said
	way   *stream       // by which they are sent; nil: there is none
	since time.Time     // when that began
	sent  int           // how many of them were sent by it
	taken uint64        // how many messages were taken that came by it
	moved chan struct{} // closed when one is taken; nil: nobody waits for that
	page  *page         // keeps them for the next process, if this one is killed; nil: nothing does
}

// put takes a message once there is room for it.
func (o *outbox) put(ctx context.Context, s said) error {
	if !o.until(ctx, func() bool { return len(o.kept) < mostAhead }) {
		return ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.page.add(s.v1) // before it is sent
	o.kept = append(o.kept, s)
	return nil
}

// until waits until something is so, which can become so when a message is taken. It reports whether it is.
func (o *outbox) until(ctx context.Context, is func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !is() && ctx.Err() == nil {
		if o.moved == nil {
			o.moved = make(chan struct{})
		}
		moved := o.moved
		o.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		o.mu.Lock()
	}
	return is()
}

// inherit puts what another has left before all else.
func (o *outbox) inherit(left []said) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(left) == 0 {
		return
	}
	o.kept = append(left, o.kept...)
	o.page.replace(o.kept)
}

// route has all go by a way, also what was sent by another and not taken. Nil: by none.
func (o *outbox) route(way *stream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.way, o.since, o.sent, o.taken = way, time.Now(), 0, 0
}

// next returns what is to be sent next by a way; false: nothing just now.
func (o *outbox) next(way *stream) ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.way != way || o.sent == len(o.kept) {
		return nil, false
	}
	o.sent++
	return o.kept[o.sent-1].v1, true
}

// took notes how many messages were taken that came by a way, since its beginning. It gives the room that they had.
func (o *outbox) took(way *stream, messages uint64) (room int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.way != way || messages == o.taken {
		return 0, nil
	}
	n := messages - o.taken
	if messages < o.taken || n > uint64(o.sent) {
		return 0, fmt.Errorf(
			"the kernel's agent has taken %d messages, and has got %d", messages, o.taken+uint64(o.sent),
		)
	}
	o.taken, o.sent = messages, o.sent-int(n)
	room = o.drop(int(n))
	o.page.took(int(n), o.kept)
	if o.moved != nil {
		close(o.moved)
		o.moved = nil
	}
	return room, nil
}

// drop takes out the first n, and gives the room that they had. The lock is held.
func (o *outbox) drop(n int) (room int64) {
	room = roomOf(o.kept[:n])
	clear(o.kept[:n])
	if o.kept = o.kept[n:]; len(o.kept) == 0 {
		o.kept = nil // nothing is kept for those who say nothing
	}
	return room
}

// empty waits until all is taken.
func (o *outbox) empty(ctx context.Context) bool {
	return o.until(ctx, func() bool { return len(o.kept) == 0 })
}

// leave returns what is not taken, with what keeps it, and forgets both.
func (o *outbox) leave() ([]said, *page) {
	o.mu.Lock()
	defer o.mu.Unlock()
	left, kept := o.kept, o.page
	o.kept, o.page, o.way, o.sent = nil, nil, nil, 0
	return left, kept
}

// rest has nothing kept for those who say nothing.
func (o *outbox) rest() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.page.rest()
}

// journaled reports whether the next process has what is not taken.
func (o *outbox) journaled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.page != nil && o.page.file != nil
}

// cell returns the first of them that has the kernel run something.
func (o *outbox) cell() (wire.Message, bool) {
	o.mu.Lock()
	kept := slices.Clone(o.kept)
	o.mu.Unlock()
	for _, s := range kept {
		if m, ok := s.cell(); ok {
			return m, true
		}
	}
	return wire.Message{}, false
}

// overdue reports whether something was sent by a way that is not taken for long.
func (o *outbox) overdue(way *stream) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return way != nil && way == o.way && o.sent > 0 && time.Since(o.since) > worryAfter &&
		time.Since(o.kept[0].at) > worryAfter
}

// cell returns the message, if it has the kernel run something.
func (s said) cell() (wire.Message, bool) {
	m, err := wire.DecodeV1(s.v1)
	return m, err == nil && m.Type() == "execute_request"
}

func roomOf(all []said) (room int64) {
	for _, s := range all {
		room += s.size
	}
	return room
}
