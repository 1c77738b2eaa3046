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

// Serve is the conversation with one client over a stream, as package wire has it. It returns when either side has
// ended it, and closes it.
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
	v, err := k.sit(h, cancel)
	if err != nil {
		_ = wire.WriteWelcome(c, wire.Welcome{Error: errs.Brief(err)})
		return
	}
	defer k.leave(v)
	welcome := wire.Welcome{State: string(k.Status().State), Acked: v.from, Takes: h.Takes, Cell: k.cellOf(v.seat)}
	if h.Asks {
		welcome.Asked = k.askedOf(v.seat)
	}
	if wire.WriteWelcome(c, welcome) != nil {
		return
	}
	_ = c.SetDeadline(time.Time{})
	var delivering sync.WaitGroup
	delivering.Go(func() { defer cancel(); _ = v.deliver(ctx, c) })
	k.listen(ctx, v, in)
	cancel()
	delivering.Wait()
}

// listen takes what the client sends. That it has a message never waits behind what it says to the kernel, as long as
// there is room for that.
func (k *Kernel) listen(ctx context.Context, v *visit, in *bufio.Reader) {
	for n := uint64(0); ; {
		u, err := wire.ReadUp(in)
		if err != nil {
			return
		}
		if u.Message == nil {
			v.seat.ack(u.Ack)
			continue
		}
		n++
		m, err := readable(u.Message)
		if err != nil {
			k.cfg.Logger.Warn("a client's message is left out", "error", err)
			v.took(n)
			continue
		}
		if k.pass(ctx, v, request{m, func() { v.took(n) }}) != nil {
			return
		}
	}
}

// took says that a message of the stream was taken.
func (v *visit) took(n uint64) {
	if v.repeats && v.taken.add(n) {
		wake(v.wake)
	}
}

// deliver sends the client what it has not, and says what of its own was taken.
func (v *visit) deliver(ctx context.Context, c net.Conn) error {
	out := bufio.NewWriterSize(c, soon)
	for at := v.from; ; {
		if n, news := v.taken.tell(); news {
			if err := wire.WriteTaken(out, n); err != nil {
				return err
			}
		}
		if e := v.seat.next(at); e.seq != 0 {
			if err := wire.WriteDown(out, e.seq, e.pieces()...); err != nil {
				return err
			}
			at = e.seq
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

// tally counts the messages of a stream that were taken, up to the first that was not: those of different channels
// overtake each other.
type tally struct {
	mu    sync.Mutex
	upTo  uint64
	told  uint64
	ahead map[uint64]bool // taken, behind one that was not
}

// add reports whether there is news.
func (t *tally) add(n uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n != t.upTo+1 {
		if t.ahead == nil {
			t.ahead = map[uint64]bool{}
		}
		t.ahead[n] = true
		return false
	}
	for t.upTo++; t.ahead[t.upTo+1]; t.upTo++ {
		delete(t.ahead, t.upTo+1)
	}
	return true
}

// tell returns the count, and whether that is news.
func (t *tally) tell() (uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := t.upTo > t.told
	t.told = t.upTo
	return t.upTo, news
}
