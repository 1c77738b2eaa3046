package kernelproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

const writeTime = time.Minute

// carry carries messages until the kernel has ended, which is an error that says why, or ctx has.
func (b *bridge) carry(ctx context.Context) error {
	seen := newSeen()
	first, failed := true, newBackoff()
	for {
		ws, err := b.service.dial(ctx, first)
		if err == nil {
			first = false
			err = b.converse(ctx, ws, seen, failed.Reset)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case websocket.CloseStatus(err) == websocket.StatusNormalClosure, errs.Is(err, errs.NotFound):
			return b.last(ctx)
		case refused(err):
			b.giveUp()
		}
		b.cfg.Logger.Info("the connection to the kernel is lost: connecting again", "error", err)
		if !failed.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// last says why the kernel has ended.
func (b *bridge) last(ctx context.Context) error {
	if now, err := b.service.look(ctx); err == nil && now.Reason != "" {
		return errors.New(now.Reason)
	}
	return errors.New("the kernel was shut down")
}

// refused reports whether a connection has ended because of what was sent by it.
func refused(err error) bool {
	code := websocket.CloseStatus(err)
	return code == websocket.StatusMessageTooBig || code == websocket.StatusInvalidFramePayloadData
}

// giveUp refuses what the service does not take: of what was sent by the connection before, it is the largest. To send
// it again would end each connection.
func (b *bridge) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.asked.largest(); r != nil {
		b.refuse(
			r, "TooLarge",
			fmt.Sprintf("the service does not take this message of %d bytes: send less at once", r.m.Size()),
		)
	}
}

// converse carries messages over one connection until that is lost. It says when the first one has come.
func (b *bridge) converse(outer context.Context, ws *websocket.Conn, seen *seen, works func()) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	defer ws.CloseNow()
	b.mu.Lock()
	b.asked.again()
	b.mu.Unlock()
	b.begun()
	down := make(chan error, 1)
	go func() { defer cancel(); down <- b.hear(ctx, ws, seen, sync.OnceFunc(works)) }()
	b.speak(ctx, ws)
	_ = ws.CloseNow()
	return <-down
}

// begun says that the kernel is there.
func (b *bridge) begun() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = !b.again
	b.clear()
	b.moved()
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
func (b *bridge) hear(ctx context.Context, ws *websocket.Conn, seen *seen, works func()) error {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		works()
		b.out.room()
		m, err := wire.DecodeV1(data)
		if err != nil {
			b.cfg.Logger.Warn("a message of the kernel's is left out", "error", err)
			continue
		}
		if id := m.ID(); id == "" || seen.first(id) {
			b.give(m)
			b.advise(ctx, m)
		}
	}
}

// give gives a message to whom it is for.
func (b *bridge) give(m wire.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.again { // the last words of a kernel whose place another takes: nobody waits for it any more
		return
	}
	r := b.asked.known(m.ParentID())
	answer := m.Channel == wire.Shell || m.Channel == wire.Control
	switch {
	case m.Channel == wire.IOPub:
		b.spread(m)
	case r != nil && (r.open || !answer):
		b.out.put(word{m, r.from})
	}
	if answer && r != nil {
		r.open = false
	}
}

// spread tells all clients what the kernel publishes. That it has ended they are told in words of this side's own. The
// lock is held.
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
	b.out.put(word{m: m})
	if c.State == "restarting" {
		b.refuseAll(wire.DeadKernel, wire.BegunAnew)
	}
}
