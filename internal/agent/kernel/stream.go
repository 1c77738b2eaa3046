package kernel

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

const (
	helloTime = 30 * time.Second
	soon      = 64 << 10 // bytes of a stream that are read or written at once
)

// Refuse answers a stream where there is no kernel.
func Refuse(c net.Conn, why string) {
	_ = c.SetDeadline(time.Now().Add(helloTime))
	if _, err := wire.ReadHello(bufio.NewReader(c)); err == nil {
		_ = wire.WriteWelcome(c, wire.Welcome{Error: why})
	}
	_ = c.Close()
}

// Serve is the conversation with one client over a stream, as package wire has it. It returns when either side has ended it, and closes it.
func (k *Kernel) Serve(outer context.Context, c net.Conn) {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = c.Close() })
	if s, ok := c.(interface{ AfterLeft(func()) }); ok {
		s.AfterLeft(cancel) // also while nobody reads
	}
	_ = c.SetDeadline(time.Now().Add(helloTime))
	in := bufio.NewReaderSize(c, soon)
	h, err := wire.ReadHello(in)
	if err != nil {
		return
	}
	if h.Fresh {
		k.forget(h.Client)
	}
	v, err := k.sit(h.Client, h.Came, cancel)
	if err != nil {
		_ = wire.WriteWelcome(c, wire.Welcome{Error: errs.Brief(err)})
		return
	}
	defer k.leave(v)
	if wire.WriteWelcome(c, wire.Welcome{State: string(k.Status().State), Acked: v.from, Cell: k.cellOf(v.seat)}) != nil {
		return
	}
	_ = c.SetDeadline(time.Time{})
	var delivering sync.WaitGroup
	delivering.Go(func() { defer cancel(); _ = v.deliver(ctx, c) })
	k.take(ctx, v.seat, in, h.Once)
	cancel()
	delivering.Wait()
}

// take takes what the client sends.
func (k *Kernel) take(ctx context.Context, s *seat, in *bufio.Reader, once bool) {
	for {
		u, err := wire.ReadUp(in)
		if err != nil {
			return
		}
		if u.Message == nil {
			s.ack(u.Ack)
			continue
		}
		if once && s.repeats(u.Message) {
			continue
		}
		if err := k.pass(ctx, s, u.Message); err != nil {
			k.cfg.Logger.Warn("a client's message has not reached the kernel", "error", err)
		}
	}
}

// deliver sends the client what it has not.
func (v *visit) deliver(ctx context.Context, c net.Conn) error {
	out := bufio.NewWriterSize(c, soon)
	for at := v.from; ; {
		seq, data := v.seat.next(at)
		if seq != 0 {
			if err := wire.WriteDown(out, seq, data); err != nil {
				return err
			}
			at = seq
			continue
		}
		if err := out.Flush(); err != nil {
			return err
		}
		select {
		case <-v.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
