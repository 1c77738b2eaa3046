package kernels

import (
	"context"

	"slipway/spawner"
)

type Tickets struct{ tickets }

func NewTickets() *Tickets { return &Tickets{tickets{of: map[string]ticket{}}} }

func (t *Tickets) Issue(id string, c spawner.Caller)     { t.issue(id, c) }
func (t *Tickets) Take(id string) (spawner.Caller, bool) { return t.take(id) }

type Guests struct{ guests }

func NewGuests() *Guests { return &Guests{guests{of: map[person]*guest{}}} }

func (g *Guests) Enter(c spawner.Caller) (*guest, func()) { return g.enter(c) }
func (g *Guests) Len() int                                { return len(g.of) }

func (w *guest) MakeRoom(ctx context.Context, n int64) error { return w.makeRoom(ctx, n) }
