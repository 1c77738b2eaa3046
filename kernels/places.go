package kernels

import (
	"context"
	"sync"
	"time"

	"slipway/spawner"
)

// parcelTime is how long it is kept what a client has said that has gone before the kernel could take it: it comes again.
const parcelTime = 2 * time.Minute

// place is where a client is: with which kernel, and by which name.
type place struct {
	person
	kernel spawner.ID
	name   string
}

// places are the clients that are here. Of two with one name at one kernel the earlier one has lost its connection, and does not know yet: it
// is ended. What it has said that was not taken is the other's to send, as if it had not lost it.
type places struct {
	mu   sync.Mutex
	here map[place]*client
	left map[place]*parcel // of those who have gone
}

// parcel is what a client has left.
type parcel struct {
	said []said
	late *time.Timer
	free func(room int64) // gives back this much room, and forgets its user
}

func newPlaces() places { return places{here: map[place]*client{}, left: map[place]*parcel{}} }

// before is what was at a place: a client, or what one had left.
type before struct {
	client *client
	parcel *parcel
}

// arrive takes a place.
func (p *places) arrive(c *client) (b before) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = before{p.here[c.place], p.left[c.place]}
	p.here[c.place] = c
	delete(p.left, c.place)
	if b.client != nil { // whichever of them the kernel's agent hears of first
		c.hello.Came = max(c.hello.Came, b.client.hello.Came+1)
	}
	return b
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

// keep keeps what was left for whoever comes to a place.
func (p *places) keep(at place, left []said, free func(room int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := &parcel{said: left, free: free}
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
		it.free(roomOf(it.said))
	}
}

// inherit takes over from who was here before, by the same name.
func (c *client) inherit(b before) {
	var left []said
	if b.client != nil {
		b.client.replaced.Store(true)
		b.client.gone()
		<-b.client.ended
		left = b.client.left
	}
	if b.parcel != nil {
		b.parcel.late.Stop()
		left = append(b.parcel.said, left...)
		defer b.parcel.free(0) // the room is the heir's
	}
	if c.hello.Fresh {
		c.guest.up.Release(roomOf(left))
		return
	}
	c.hello.Once = c.hello.Once || len(left) > 0
	c.outbox.inherit(left)
}

// settle leaves the place, and what was not taken to who comes there next, if the kernel is still to have it.
func (c *client) settle(service context.Context) {
	left := c.outbox.leave()
	room := roomOf(left)
	switch free := c.places.depart(c); {
	case !free:
		c.left = left
	case room > 0 && !c.finished && service.Err() == nil:
		_, out := c.guests.enter(c.whose)
		c.places.keep(c.place, left, func(room int64) { c.guest.up.Release(room); out() })
	default:
		c.guest.up.Release(room)
	}
	close(c.ended)
}
