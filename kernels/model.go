package kernels

import (
	"context"
	"sync"
	"time"

	"slipway/kernels/wire"
	"slipway/spawner"
)

const (
	askTime      = 3 * time.Second // for what a kernel does
	askedAtOnce  = 16
	unknownState = "unknown" // of a kernel whose agent does not tell
)

// model is a kernel as clients know it.
type model struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Activity    string `json:"last_activity"`
	State       string `json:"execution_state"`
	Connections int    `json:"connections"`
	Reason      string `json:"reason,omitempty"`   // why it is dead
	Progress    string `json:"progress,omitempty"` // what happened last in its start
	// Session is the kernel's own, for this service's clients.
	Session spawner.ID `json:"session"`
}

// over reports whether a kernel has ended, or is about to.
func over(w spawner.Workload) bool {
	return w.Want != spawner.WantRunning || w.Phase == spawner.Stopping && !w.Moving || !w.Phase.Active()
}

// whyOver says why a kernel has ended.
func whyOver(w spawner.Workload) string {
	why := "the kernel was shut down"
	if o := w.Outcome; o != nil && o.Reason != "" {
		if why = o.Reason; o.Remedy != "" {
			why += ": " + o.Remedy
		}
	}
	return why
}

// models asks the agents of several kernels.
func (g *gateway) models(ctx context.Context, all []spawner.Workload) []model {
	list := make([]model, len(all))
	room := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	for i, k := range all {
		asking.Go(func() {
			room <- struct{}{}
			list[i] = g.model(ctx, k)
			<-room
		})
	}
	asking.Wait()
	return list
}

// model asks a kernel's agent what the kernel does.
func (g *gateway) model(ctx context.Context, k spawner.Workload) model {
	m := model{ID: k.Kernel, Session: k.ID, Name: k.Name, State: "starting", Activity: wire.Stamp(k.Since)}
	switch {
	case over(k):
		m.State, m.Reason = "dead", whyOver(k)
		return m
	case k.Phase != spawner.Running:
		m.Progress = g.Engine.HowFar(spawner.Caller{System: true}, k.ID)
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := g.Agent(k.ID).Kernel(ctx)
	if err != nil {
		m.State = unknownState
		return m
	}
	m.State, m.Connections = string(s.State), s.Connections
	m.Activity = wire.Stamp(time.Now().Add(-time.Duration(s.Quiet * float64(time.Second))))
	return m
}
