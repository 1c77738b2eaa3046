package driverrpc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"slipway/internal/gpu"
)

// Config says how the helper is started.
type Config struct {
	// Argv is the helper's program and its arguments, such as Helper's path and "drive".
	Argv []string
	// Start starts it; nil: as a child process from Argv. What it writes to stderr goes to the log.
	Start func(argv []string, stderr io.Writer) (Process, error)
	// Mute is how long the helper may say nothing while it is asked something before it is taken for hung and ended. 0:
	// a minute.
	Mute   time.Duration
	Logger *slog.Logger
}

// Process is a helper that runs.
type Process struct {
	In   io.WriteCloser // its standard input
	Out  io.Reader      // its standard output, which ends when it does
	Kill func()
	Wait func() error // returns once it is gone; called once
}

const (
	defaultMute = time.Minute
	// partGrace is how long the helper may take to end by itself: somewhat longer than its own farewell.
	partGrace = farewell + 2*time.Second
	// killGrace is how long a killed one may stay: a process in the middle of a call that the kernel does not end stays
	// for ever.
	killGrace = 2 * time.Second
)

// Client is a gpu.Driver in a child process, which it starts when it is first asked, and anew after it has died.
type Client struct {
	argv  []string
	start func(argv []string, stderr io.Writer) (Process, error)
	mute  time.Duration
	log   *slog.Logger

	mu     sync.Mutex
	child  *child // nil: none runs
	pause  pause
	closed bool
}

var _ gpu.Driver = (*Client)(nil)

// New makes a client. It starts nothing yet.
func New(cfg Config) *Client {
	c := &Client{argv: cfg.Argv, start: cfg.Start, mute: cmp.Or(cfg.Mute, defaultMute), log: cfg.Logger}
	if c.start == nil {
		c.start = startProcess
	}
	return c
}

// Close ends the helper and waits until it is gone. Calls under way fail.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	child := c.child
	c.mu.Unlock()
	if child == nil {
		return nil
	}
	return child.part()
}

// ready returns the child that runs, or starts one unless the last ones have died too soon.
func (c *Client) ready() (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("the GPU helper: %w", io.ErrClosedPipe)
	}
	if c.child != nil && !c.child.over() {
		return c.child, nil
	}
	if c.child != nil {
		at, why := c.child.death()
		if !c.child.left() { // two would be two owners of the library
			return nil, fmt.Errorf("the last GPU helper has not ended yet: %w", why)
		}
		c.pause.died(at, why, c.child.served())
		c.child = nil
	}
	if err := c.pause.holds(); err != nil {
		return nil, err
	}
	child, err := c.spawn()
	if err != nil {
		c.pause.died(time.Now(), err, 0)
		return nil, err
	}
	c.child = child
	return child, nil
}

// call asks the helper, and decodes the answer into result unless that is nil.
func (c *Client) call(ctx context.Context, r request, result any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	child, err := c.ready()
	if err != nil {
		return err
	}
	a, err := child.ask(ctx, r)
	if err != nil {
		return fmt.Errorf("ask the GPU helper for %s: %w", r.Method, err)
	}
	if a.Fault != nil {
		return a.Fault.unpack()
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("read the GPU helper's answer to %s: %w", r.Method, err)
	}
	return nil
}

// System says which driver there is.
func (c *Client) System(ctx context.Context) (s gpu.System, err error) {
	err = c.call(ctx, request{Method: methodSystem}, &s)
	return s, err
}

// Devices returns all GPUs.
func (c *Client) Devices(ctx context.Context) (devices []gpu.Device, err error) {
	err = c.call(ctx, request{Method: methodDevices}, &devices)
	return devices, err
}

// Instances returns what a GPU is cut into.
func (c *Client) Instances(ctx context.Context, uuid string) (found []gpu.Instance, err error) {
	err = c.call(ctx, request{Method: methodInstances, UUID: uuid}, &found)
	return found, err
}

// CreateInstance makes an instance. After an error that is none of package gpu's it may have been made all the same.
func (c *Client) CreateInstance(
	ctx context.Context, uuid, profile string, at gpu.Placement,
) (in gpu.Instance, err error) {
	err = c.call(ctx, request{Method: methodCreate, UUID: uuid, Profile: profile, Placement: at}, &in)
	return in, err
}

// DestroyInstance destroys an instance.
func (c *Client) DestroyInstance(ctx context.Context, uuid string, gi int) error {
	return c.call(ctx, request{Method: methodDestroy, UUID: uuid, GI: gi}, nil)
}

// SetMIG switches MIG mode.
func (c *Client) SetMIG(ctx context.Context, uuid string, on bool) error {
	return c.call(ctx, request{Method: methodMIG, UUID: uuid, On: on}, nil)
}

// SetExclusive sets the compute mode.
func (c *Client) SetExclusive(ctx context.Context, uuid string, on bool) error {
	return c.call(ctx, request{Method: methodExclusive, UUID: uuid, On: on}, nil)
}

// Health says what speaks against a GPU.
func (c *Client) Health(ctx context.Context, uuid string) (h gpu.Health, err error) {
	err = c.call(ctx, request{Method: methodHealth, UUID: uuid}, &h)
	return h, err
}

// Read measures a GPU.
func (c *Client) Read(ctx context.Context, uuid string) (r gpu.Reading, err error) {
	err = c.call(ctx, request{Method: methodRead, UUID: uuid}, &r)
	return r, err
}

// LimitMemory limits a cgroup.
func (c *Client) LimitMemory(ctx context.Context, uuid, cgroup string, bytes int64) error {
	return c.call(ctx, request{Method: methodLimit, UUID: uuid, Cgroup: cgroup, Bytes: bytes}, nil)
}
