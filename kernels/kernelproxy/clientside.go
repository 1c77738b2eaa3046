package kernelproxy

import (
	"context"
	"encoding/json"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// take takes a message of a client's.
func (b *bridge) take(ctx context.Context, from *peer, m wire.Message) {
	switch m.Type() {
	case "shutdown_request":
		b.shutdown(ctx, from, m)
		return
	case "interrupt_request":
		b.clients.work.Go(func() { b.interruptFor(ctx, from, m) })
		return
	}
	large := m.Oversized()
	b.out.room()
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.asked.add(from, m)
	switch {
	case large != nil:
		b.refuse(r, "TooLarge", large.Error()+": write it to a file, or send it in pieces")
	case b.over != "":
		b.refuse(r, "NoKernel", b.over)
	case wantsSession(m):
		b.fromSession(ctx, r)
	case b.running:
		b.asked.enqueue(r)
		b.wake()
	default:
		b.hold(r)
	}
}

func (b *bridge) wake() {
	select {
	case b.up <- struct{}{}:
	default:
	}
}

// hold keeps a message until the kernel is there. Servers of Jupyter relay nothing to browsers before a kernel has
// answered them, by either channel: they are answered by the one on which nobody looks at what kernel it is. The lock
// is held.
func (b *bridge) hold(r *request) {
	if r.kind() == "kernel_info_request" && (r.m.Channel == wire.Control || b.late) {
		b.present(r)
		return
	}
	b.asked.enqueue(r)
	if r.kind() == "execute_request" {
		b.publish(r.m.Header, "status", map[string]string{"execution_state": "busy"})
		b.show()
	}
}

// shutdown ends the bridge, with a word to the clients, which waits for none of them: what takes long Jupyter kills.
func (b *bridge) shutdown(ctx context.Context, from *peer, m wire.Message) {
	var c struct {
		Restart bool `json:"restart"`
	}
	_ = json.Unmarshal(m.Content, &c) // what is no JSON is no restart
	content := map[string]any{"status": "ok", "restart": c.Restart}
	now, cancel := context.WithCancel(ctx)
	cancel()
	for channel, to := range map[wire.Channel]*peer{m.Channel: from, wire.IOPub: nil} {
		if answer, err := wire.New(channel, "shutdown_reply", m.Header, content); err == nil {
			b.clients.say(now, word{answer, to})
		}
	}
	b.finish(c.Restart)
}

func (b *bridge) interruptFor(ctx context.Context, from *peer, m wire.Message) {
	content := map[string]any{"status": "ok"}
	if err := b.interrupt(ctx); err != nil {
		content = failure("Interrupt", err.Error())
	}
	b.reply(from, m, "interrupt_reply", content)
}

// interrupt stops what the kernel computes, or takes back what waits for it.
func (b *bridge) interrupt(ctx context.Context) error {
	b.mu.Lock()
	running, over := b.running, b.over
	if !running {
		for _, r := range b.asked.open("execute_request") {
			b.asked.withdraw(r)
			b.refuse(r, "KeyboardInterrupt", "the kernel was not there yet")
		}
		b.shows = nil
	}
	b.mu.Unlock()
	if !running || over != "" {
		return nil
	}
	err := b.service.interrupt(ctx)
	if err != nil && ctx.Err() == nil && !errs.Is(err, errs.NotFound) { // who has ended it may interrupt it too
		b.cfg.Logger.Warn("the kernel is not interrupted", "error", err)
	}
	return err
}

// fail ends the hope for a kernel. The process lives on and says why to who asks: one that ended would be started again
// at once.
func (b *bridge) fail(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over, b.running = why+"\nRestart the kernel to start another.", false
	b.clear()
	b.refuseAll("NoKernel", b.over)
}

// refuseAll answers all that wait. The lock is held.
func (b *bridge) refuseAll(name, why string) {
	b.asked.drop(len(b.asked.line))
	for _, r := range b.asked.open() {
		b.refuse(r, name, why)
	}
}

// refuse answers a request that no kernel answers. The lock is held.
func (b *bridge) refuse(r *request, name, why string) {
	if !r.open {
		return
	}
	if r.kind() == "kernel_info_request" {
		b.present(r)
		return
	}
	r.open = false
	content := failure(name, why)
	b.publish(r.m.Header, "status", map[string]string{"execution_state": "busy"})
	if r.kind() == "execute_request" {
		b.publish(r.m.Header, "error", failure(name, why))
		content["execution_count"] = 0
	}
	b.reply(r.from, r.m, r.answer(), content)
	b.publish(r.m.Header, "status", map[string]string{"execution_state": "idle"})
}

func failure(name, why string) map[string]any {
	content := wire.Failure(name, why)
	content["status"] = "error"
	return content
}

// reply answers a client.
func (b *bridge) reply(to *peer, request wire.Message, kind string, content any) {
	m, err := wire.New(request.Channel, kind, request.Header, content)
	if err == nil {
		b.out.put(word{m, to})
	}
}

// publish tells all clients something, as the kernel, when it is that one's turn.
func (b *bridge) publish(parent json.RawMessage, kind string, content any) {
	m, err := wire.New(wire.IOPub, kind, parent, content)
	if err == nil {
		b.out.put(word{m: m})
	}
}
