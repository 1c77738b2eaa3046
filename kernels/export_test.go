package kernels

import "slipway/spawner"

type Tickets struct{ tickets }

func NewTickets() *Tickets { return &Tickets{tickets{of: map[string]ticket{}}} }

func (t *Tickets) Issue(id string, c spawner.Caller)     { t.issue(id, c) }
func (t *Tickets) Take(id string) (spawner.Caller, bool) { return t.take(id) }
