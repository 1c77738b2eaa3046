package service

import (
	"context"
	"net"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/tunnel"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// agents lets the engine speak to agents over the tunnel.
type agents struct{ links *tunnel.Links }

// Open listens for the agent of a workload.
func (a agents) Open(id spawner.ID, socket string, uid int) error {
	return a.links.Open(string(id), socket, uid)
}

// Expect lets the agent of a workload in when it dials from another host.
func (a agents) Expect(id spawner.ID) error {
	return a.links.Expect(string(id))
}

// Close ends the link.
func (a agents) Close(id spawner.ID) { a.links.Close(string(id)) }

// Agent returns the client of a workload's agent.
func (a agents) Agent(id spawner.ID) engine.Agent { return a.client(id) }

func (a agents) client(id spawner.ID) *control.Client {
	return &control.Client{Dial: func(ctx context.Context) (net.Conn, error) {
		return a.links.Dial(ctx, string(id), tunnel.DoorControl)
	}}
}

// redial is how long a visitor of a session waits for its agent to dial again: a restart of the service is not to be
// noticed.
const redial = 5 * time.Second

// dialApp opens a connection to the app of a session.
func (a agents) dialApp(ctx context.Context, id spawner.ID) (net.Conn, error) {
	return a.dial(ctx, id, tunnel.DoorApp)
}

// dialCode opens one to VS Code beside the app.
func (a agents) dialCode(ctx context.Context, id spawner.ID) (net.Conn, error) {
	return a.dial(ctx, id, tunnel.DoorCode)
}

func (a agents) dial(ctx context.Context, id spawner.ID, door tunnel.Door) (net.Conn, error) {
	wait, cancel := context.WithTimeout(ctx, redial)
	defer cancel()
	return a.links.DialWhenUp(wait, string(id), door)
}
