package hubapi

import (
	"context"
	"net/http"
	"time"
)

// GatewayBase is the path below which Jupyter's own API for kernels lives, in place of Base.
const GatewayBase = "/kernels/api"

// Kernel is a running Jupyter kernel as Jupyter's clients know it, and the session that it is here.
type Kernel struct {
	ID          string    `json:"id"` // Jupyter's
	Name        string    `json:"name"`
	Activity    time.Time `json:"last_activity"`
	State       string    `json:"execution_state"` // starting, idle, busy, restarting, dead, or unknown
	Connections int       `json:"connections"`
	Reason      string    `json:"reason,omitempty"`   // why it is dead
	Progress    string    `json:"progress,omitempty"` // what happened last in its start
	Session     string    `json:"session"`
}

// The states of Kernel that are looked for.
const (
	KernelStarting = "starting"
	KernelIdle     = "idle"
	KernelDead     = "dead"
)

// KernelRequest asks for a kernel.
type KernelRequest struct {
	Name string            `json:"name"` // a kernelspec's; empty: the default
	Env  map[string]string `json:"env,omitempty"`
	Tied bool              `json:"tied,omitempty"` // it ends when no client has been there for some minutes
}

// gateway is the client that speaks to the gateway to kernels.
func (c *Client) gateway() *Client {
	g := *c
	g.api = GatewayBase
	return &g
}

// Kernels lists the caller's own kernels.
func (c *Client) Kernels(ctx context.Context) ([]Kernel, error) {
	return fetch[[]Kernel](ctx, c.gateway(), http.MethodGet, "/kernels", nil)
}

// Kernel returns one by Jupyter's ID.
func (c *Client) Kernel(ctx context.Context, id string) (Kernel, error) {
	return fetch[Kernel](ctx, c.gateway(), http.MethodGet, path("kernels", id), nil)
}

// StartKernel starts one. It answers when it is up, or after half a minute with one that is still starting.
func (c *Client) StartKernel(ctx context.Context, r KernelRequest) (Kernel, error) {
	return fetch[Kernel](ctx, c.gateway(), http.MethodPost, "/kernels", r)
}

// InterruptKernel interrupts what one runs.
func (c *Client) InterruptKernel(ctx context.Context, id string) error {
	return c.gateway().call(ctx, http.MethodPost, path("kernels", id, "interrupt"), struct{}{}, nil)
}

// RestartKernel has one begin anew, with the slice that it has.
func (c *Client) RestartKernel(ctx context.Context, id string) (Kernel, error) {
	return fetch[Kernel](ctx, c.gateway(), http.MethodPost, path("kernels", id, "restart"), struct{}{})
}

// StopKernel shuts one down, and returns at once.
func (c *Client) StopKernel(ctx context.Context, id string) error {
	return c.gateway().call(ctx, http.MethodDelete, path("kernels", id), nil, nil)
}
