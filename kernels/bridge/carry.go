package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

const (
	firstRedial = 200 * time.Millisecond
	mostRedial  = 5 * time.Second
	writeTime   = time.Minute
)

// carry carries messages until the kernel has ended, which is an error that says why, or ctx has.
func (b *bridge) carry(ctx context.Context) error {
	seen := newSeen()
	first, wait := true, firstRedial
	for {
		ws, err := b.service.dial(ctx, first)
		if err == nil {
			first, wait = false, firstRedial
			err = b.converse(ctx, ws, seen)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case websocket.CloseStatus(err) == websocket.StatusNormalClosure, errs.Is(err, errs.NotFound):
			return b.last(ctx)
		}
		b.cfg.Logger.Info("the connection to the kernel is lost: connecting again", "error", err)
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, mostRedial)
	}
}

// last says why the kernel has ended.
func (b *bridge) last(ctx context.Context) error {
	if now, err := b.service.look(ctx); err == nil && now.Reason != "" {
		return errors.New(now.Reason)
	}
	return errors.New("the kernel was shut down")
}

// converse carries messages over one connection until that is lost.
func (b *bridge) converse(outer context.Context, ws *websocket.Conn, seen *seen) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	defer ws.CloseNow()
	b.mu.Lock()
	b.asked.again()
	b.mu.Unlock()
	b.begun()
	down := make(chan error, 1)
	go func() { defer cancel(); down <- b.hear(ctx, ws, seen) }()
	b.speak(ctx, ws)
	_ = ws.CloseNow()
	return <-down
}

// begun says that the kernel is there.
func (b *bridge) begun() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = true
	b.clear()
	b.wake()
}

// speak sends what the clients say.
func (b *bridge) speak(ctx context.Context, ws *websocket.Conn) {
	for {
		b.mu.Lock()
		r := b.asked.next()
		b.mu.Unlock()
		if r == nil {
			select {
			case <-b.up:
			case <-ctx.Done():
				return
			}
			continue
		}
		write, cancel := context.WithTimeout(ctx, writeTime)
		err := ws.Write(write, websocket.MessageBinary, wire.EncodeV1(r.m))
		cancel()
		if err != nil {
			return
		}
	}
}

// hear gives the clients what the kernel says.
func (b *bridge) hear(ctx context.Context, ws *websocket.Conn, seen *seen) error {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		m, err := wire.DecodeV1(data)
		if err != nil {
			b.cfg.Logger.Warn("a message of the kernel's is left out", "error", err)
			continue
		}
		if id := m.ID(); id == "" || seen.first(id) {
			b.give(m)
		}
	}
}

// give gives a message to whom it is for.
func (b *bridge) give(m wire.Message) {
	b.mu.Lock()
	r := b.asked.known(m.ParentID())
	answer := m.Channel == wire.Shell || m.Channel == wire.Control
	open := r != nil && r.open
	if answer && r != nil {
		r.open = false
	}
	b.mu.Unlock()
	switch {
	case m.Channel == wire.IOPub:
		b.spread(m)
	case r != nil && (open || !answer):
		b.clients.reply(r.from, m)
	}
}

// spread tells all clients what the kernel publishes. That it has ended they are told in words of this side's own.
func (b *bridge) spread(m wire.Message) {
	var c struct {
		State string `json:"execution_state"`
	}
	if m.Type() == "status" {
		_ = json.Unmarshal(m.Content, &c) // the kernel's own affair
	}
	if c.State == "dead" {
		return
	}
	b.clients.publish(b.ctx, m)
	if c.State == "restarting" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.refuseAll("DeadKernel", "the kernel began anew, and its variables are gone: run the cells again that it needs")
	}
}
