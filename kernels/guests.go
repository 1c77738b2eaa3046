package kernels

import (
	"context"
	"sync"

	"slipway/internal/errs"
	"slipway/spawner"
)

const kernelSockets = 32 // websockets to one kernel: its agent remembers as many clients

type person struct {
	hub  string
	user spawner.User
}

// guest is a user while requests of hers are here.
type guest struct {
	requests int
	sockets  map[spawner.ID]int
	all      int
	share
	naming sync.Mutex // held while it is looked whether there is a kernel, and it is asked for
	// the kernels that were started for requests here, of which nobody has heard yet: how many wait for each
	unheard map[spawner.ID]int
	turns   map[string]*turn // of those who change one notebook
}

// turn is whose turn it is with one thing.
type turn struct {
	here   chan struct{} // holds one thing while somebody has it
	wanted int
}

// guests are the users with requests here.
type guests struct {
	mu sync.Mutex
	of map[person]*guest
}

// enter returns the guest that a caller is, until leave.
func (g *guests) enter(c spawner.Caller) (who *guest, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := person{c.Hub, c.User}
	who = g.of[p]
	if who == nil {
		who = &guest{
			sockets: map[spawner.ID]int{}, unheard: map[spawner.ID]int{}, turns: map[string]*turn{}, share: newShare(),
		}
		g.of[p] = who
	}
	who.requests++
	return who, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if who.requests--; who.requests == 0 {
			delete(g.of, p)
		}
	}
}

// seat takes a websocket to a kernel, until leave.
func (g *guests) seat(c spawner.Caller, id spawner.ID, most int) (who *guest, leave func(), err error) {
	who, out := g.enter(c)
	if err := g.sit(who, id, most); err != nil {
		out()
		return nil, nil, err
	}
	return who, func() { g.rise(who, id); out() }, nil
}

func (g *guests) sit(who *guest, id spawner.ID, most int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := who.sockets[id]; n >= kernelSockets {
		return errs.New(errs.OverQuota, "%d clients are connected to this kernel, and no more can be", n).
			With("close one of them")
	}
	if who.all >= most {
		return errs.New(errs.OverQuota, "you have %d connections to kernels, and no more can be", who.all).
			With("close some of your notebooks")
	}
	delete(who.unheard, id)
	who.sockets[id]++
	who.all++
	return nil
}

func (g *guests) rise(who *guest, id spawner.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	who.all--
	if who.sockets[id]--; who.sockets[id] == 0 {
		delete(who.sockets, id)
	}
}

// await notes that a request waits for a kernel. Whoever comes to one of which somebody has heard changes nothing by
// going away.
func (g *guests) await(who *guest, id spawner.ID, fresh bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if who.unheard[id] > 0 || fresh {
		who.unheard[id]++
	}
}

// tell notes that somebody hears of a kernel.
func (g *guests) tell(who *guest, id spawner.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(who.unheard, id)
}

// giveUp notes that a request waits no more, and reports whether it was the last one to know of its kernel.
func (g *guests) giveUp(who *guest, id spawner.ID) (last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if who.unheard[id] == 0 {
		return false
	}
	if who.unheard[id]--; who.unheard[id] > 0 {
		return false
	}
	delete(who.unheard, id)
	return true
}

// turn waits until none of a user's other requests is at what a word names, until end.
func (g *guests) turn(ctx context.Context, who *guest, word string) (end func(), err error) {
	t, leave := g.queue(who, word)
	select {
	case t.here <- struct{}{}:
		return func() { <-t.here; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (g *guests) queue(who *guest, word string) (t *turn, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t = who.turns[word]; t == nil {
		t = &turn{here: make(chan struct{}, 1)}
		who.turns[word] = t
	}
	t.wanted++
	return t, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if t.wanted--; t.wanted == 0 {
			delete(who.turns, word)
		}
	}
}
