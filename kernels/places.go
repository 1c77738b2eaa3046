package kernels

import (
	"context"
	"sync"
	"time"

	"slipway/spawner"
)

// parcelTime is how long it is kept what a client has said that has gone before the kernel could take it: it comes
// again.
const parcelTime = 2 * time.Minute

const mostBuried = 4096 // clients, of which it is known that they were told why their kernels have ended

// place is where a client is: with which kernel, and by which name.
type place struct {
	person
	kernel spawner.ID
	name   string
}

// places are the clients that are here. Of two with one name at one kernel the earlier one has lost its connection, and
// does not know yet: it is ended. What it has said that was not taken is the other's to send, as if it had not lost it.
//
// Which is the earlier one their connections tell, not their requests: a Jupyter Server whose page has closed its
// websocket at once, to open another, leaves the first one open, and on a busy machine that may be served after the
// second.
type places struct {
	mu     sync.Mutex
	here   map[place]*client
	left   map[place]*parcel // of those who have gone
	buried map[place]bool    // who were told why their kernels have ended
}

// parcel is what a client has left.
type parcel struct {
	said []said
	page *page // which keeps that
	cell *cell
	late *time.Timer
	free func(room int64) // gives back this much room, and forgets its user
}

func newPlaces() places {
	return places{here: map[place]*client{}, left: map[place]*parcel{}, buried: map[place]bool{}}
}

// before is what was at a place: a client, or what one had left.
type before struct {
	client *client
	parcel *parcel
}

// arrive takes a place. late says that one has it already whose connection was made after c's.
func (p *places) arrive(c *client) (b before, late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = before{p.here[c.place], p.left[c.place]}
	if b.client != nil && c.accepted.Before(b.client.accepted) {
		return before{}, true
	}
	p.here[c.place] = c
	delete(p.left, c.place)
	if b.client != nil { // whichever of them the kernel's agent hears of first
		c.hello.Came = max(c.hello.Came, b.client.hello.Came+1)
	}
	return b, false
}

// depart leaves a place. It reports whether nobody has taken it.
func (p *places) depart(c *client) (free bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if free = p.here[c.place] == c; free {
		delete(p.here, c.place)
	}
	return free
}

// bury reports whether it is the first time that somebody at a place is told why the kernel has ended.
func (p *places) bury(at place) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first = !p.buried[at]
	if len(p.buried) >= mostBuried {
		clear(p.buried)
	}
	p.buried[at] = true
	return first
}

// keep keeps what was left for whoever comes to a place.
func (p *places) keep(at place, it *parcel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it.late = time.AfterFunc(parcelTime, func() { p.forget(at, it) })
	p.left[at] = it
}

func (p *places) forget(at place, it *parcel) {
	p.mu.Lock()
	mine := p.left[at] == it
	if mine {
		delete(p.left, at)
	}
	p.mu.Unlock()
	if mine {
		it.page.drop()
		it.free(roomOf(it.said))
	}
}

// inherit takes over from who was here before, by the same name, also while another process was the service.
func (c *client) inherit(ctx context.Context, b before) {
	left, forget := c.recovered(ctx)
	defer forget() // once it is kept anew
	if b.parcel != nil {
		b.parcel.late.Stop()
		left = append(left, b.parcel.said...)
		c.cell.inherit(b.parcel.cell)
		defer b.parcel.free(0) // the room is the heir's
		defer b.parcel.page.drop()
	}
	if b.client != nil {
		b.client.replaced.Store(true)
		b.client.gone()
		<-b.client.ended
		left = append(left, b.client.left...)
		c.cell.inherit(&b.client.cell)
		defer b.client.page.drop()
	}
	if c.hello.Fresh {
		c.guest.up.Release(roomOf(left))
		return
	}
	c.hello.Once = c.hello.Once || len(left) > 0
	c.outbox.inherit(left)
}

// recovered returns what the client had sent to a process that was killed before it knew that the kernel had taken
// that.
func (c *client) recovered(ctx context.Context) (left []said, forget func()) {
	if c.repeats {
		return nil, nothing
	}
	messages, forget := c.Journal.claim(c.place)
	for _, v1 := range messages {
		s := said{v1, int64(len(v1)), time.Now()}
		if m, ok := s.cell(); ok {
			c.cell.says(m)
		}
		if c.guest.makeRoom(ctx, s.size) == nil {
			left = append(left, s)
		} else if m, ok := s.cell(); ok {
			c.refuse(m.Channel, m.Header, "NotTaken", lost)
		}
	}
	return left, forget
}

// settle leaves the place, and what was not taken to who comes there next, if the kernel is still to have it.
func (c *client) settle(service context.Context) {
	left, kept := c.outbox.leave()
	room := roomOf(left)
	switch free := c.places.depart(c); {
	case !free:
		c.left, c.page = left, kept
	case service.Err() != nil:
		c.guest.up.Release(room)
		kept.close()
	case !c.finished && (len(left) > 0 || c.cell.waits()):
		_, out := c.guests.enter(c.whose)
		free := func(room int64) { c.guest.up.Release(room); out() }
		c.places.keep(c.place, &parcel{said: left, page: kept, cell: &c.cell, free: free})
	default:
		c.guest.up.Release(room)
		kept.drop()
	}
	close(c.ended)
}
