package kernels

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"slipway/internal/errs"
	"slipway/spawner"
)

// What one user's clients may take of the service, however many they are and however slow.
const (
	kernelSockets = 32        // websockets to one kernel: its agent remembers as many clients
	bytesUp       = 128 << 20 // of messages that her clients have said and her kernels have not taken
	bytesDown     = 256 << 20 // of large messages that her kernels have said and her clients have not taken
	smallMessage  = 32 << 10  // is read at once
	roomTime      = 30 * time.Second
)

var errNoRoom = errs.New(errs.OverQuota, "your kernels do not take what you send")

type person struct {
	hub  string
	user spawner.User
}

// guest is a user while requests of hers are here.
type guest struct {
	requests int
	sockets  map[spawner.ID]int
	all      int
	up, down *semaphore.Weighted
	naming   sync.Mutex // held while it is looked whether a notebook has a kernel, and it is given one
}

// guests are the users with requests here.
type guests struct {
	mu sync.Mutex
	of map[person]*guest
}

// enter gives the guest that a caller is, until leave.
func (g *guests) enter(c spawner.Caller) (who *guest, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := person{c.Hub, c.User}
	who = g.of[p]
	if who == nil {
		who = &guest{sockets: map[spawner.ID]int{}, up: semaphore.NewWeighted(bytesUp), down: semaphore.NewWeighted(bytesDown)}
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
		return errs.New(errs.OverQuota, "%d clients are connected to this kernel, and no more can be", n).With("close one of them")
	}
	if who.all >= most {
		return errs.New(errs.OverQuota, "you have %d connections to kernels, and no more can be", who.all).With("close some of your notebooks")
	}
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

// makeRoom waits for room for bytes that a client says.
func (w *guest) makeRoom(ctx context.Context, n int64) error {
	if w.up.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, roomTime)
	defer cancel()
	if w.up.Acquire(ctx, n) != nil {
		return errNoRoom
	}
	return nil
}
