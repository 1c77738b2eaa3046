package cli

import (
	"context"
	"net"

	"slipway/internal/agent/control"
	"slipway/internal/tunnel"
	"slipway/spawner"
)

// agents lets the engine speak to agents over the tunnel.
type agents struct{ links *tunnel.Links }

// Open listens for the agent of a workload.
func (a agents) Open(id spawner.ID, socket string, uid int) error {
	return a.links.Open(string(id), socket, uid)
}

// Close ends the link.
func (a agents) Close(id spawner.ID) { a.links.Close(string(id)) }

// Agent gives the client of a workload's agent.
func (a agents) Agent(id spawner.ID) spawner.Agent {
	return &control.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return a.links.Dial(ctx, string(id), tunnel.DoorControl)
	}}
}
