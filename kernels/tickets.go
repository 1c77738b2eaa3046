package kernels

import (
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/spawner"
)

// Jupyter's own client for kernels behind a gateway, which nbclient and papermill use, opens its websocket without a
// token and right after it has started the kernel, with one. The kernel's id is what it brings along: 122 random bits
// that so far only the answer to that start has had in it. So an id is a ticket: for one websocket to that one kernel,
// for a minute, unless its owner comes with a token first. After that the id is a name like any other, and may be in
// any log.
const ticketLife = time.Minute

type ticket struct {
	whose spawner.Caller
	until time.Time
}

// tickets are the ids with which somebody may come without a token.
type tickets struct {
	mu sync.Mutex
	of map[string]ticket
}

// issue makes a ticket of the id of a new kernel that was just told to its owner. What came through an agent needs
// none.
func (t *tickets) issue(id string, c spawner.Caller) {
	if c.Workload != "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for id, old := range t.of {
		if now.After(old.until) {
			delete(t.of, id)
		}
	}
	t.of[id] = ticket{c, now.Add(ticketLife)}
}

// take returns who may come with an id, once.
func (t *tickets) take(id string) (spawner.Caller, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.of[id]
	delete(t.of, id)
	return v.whose, ok && time.Now().Before(v.until)
}

// byTicket is by, for what a ticket opens. Of wrong ones it says what it says of none: guessing one is as hopeless as
// guessing a token.
func (g *gateway) byTicket(do func(w http.ResponseWriter, r *http.Request, c spawner.Caller) error) http.HandlerFunc {
	other := g.by(do)
	return func(w http.ResponseWriter, r *http.Request) {
		if c, ok := g.ticketOf(r); ok {
			g.told(r, Deed{By: c})
			if err := do(w, r, c); err != nil {
				g.told(r, Deed{Err: err})
				g.refuse(w, err)
			}
			return
		}
		other(w, r)
	}
}

// ticketOf returns whose the ticket of a request is that has nothing else. A connection may say who calls, and needs
// none.
func (g *gateway) ticketOf(r *http.Request) (spawner.Caller, bool) {
	if g.NoTickets || r.Header.Get("Authorization") != "" || r.URL.Query().Has("token") {
		return spawner.Caller{}, false
	}
	return g.tickets.take(chi.URLParam(r, "id"))
}
