package kernelproxy

import (
	"context"
	"sync"

	"slipway/kernels/wire"
)

const outboxLimit = 16 << 20 // bytes that wait, beside one message of any size

// outbox has what the clients are to be told, in order: by the kernel, and by the bridge itself, which decides that
// under its lock. What is put there waits for nobody; a client that takes nothing is waited for behind it.
type outbox struct {
	mu      sync.Mutex
	changed sync.Cond
	line    []word
	bytes   int
	over    bool
}

// word is one message. It is for all that have subscribed, or it answers the client from which a request has come.
type word struct {
	m  wire.Message
	to *peer // nil: all
}

func newOutbox() *outbox {
	o := &outbox{}
	o.changed.L = &o.mu
	return o
}

// put does not wait.
func (o *outbox) put(w word) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line, o.bytes = append(o.line, w), o.bytes+w.m.Size()
	o.changed.Broadcast()
}

// room waits until there is room. Whoever brings what others have said waits here first, and holds no lock.
func (o *outbox) room() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bytes > outboxLimit && !o.over {
		o.changed.Wait()
	}
}

// run says what was put there, until ctx ends.
func (o *outbox) run(ctx context.Context, say func(context.Context, word)) {
	defer context.AfterFunc(ctx, o.end)()
	for {
		w, more := o.next()
		if !more {
			return
		}
		say(ctx, w)
		o.said(w)
	}
}

func (o *outbox) next() (w word, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.line) == 0 && !o.over {
		o.changed.Wait()
	}
	if o.over {
		return word{}, false
	}
	w, o.line[0] = o.line[0], word{}
	o.line = o.line[1:]
	return w, true
}

func (o *outbox) said(w word) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= w.m.Size()
	o.changed.Broadcast()
}

func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	o.changed.Broadcast()
}
