package sshgate

import (
	"bytes"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/sshlink"
)

// line is one channel: the client's end is near, the session's far.
type line struct {
	v     *visitor
	kind  string
	to    string // where it leads, for the log
	near  ssh.Channel
	since time.Time

	opened chan struct{} // closed when far is there, or never will be
	gone   chan struct{} // closed when the client has closed the channel
	sent   chan struct{} // closed when all that the client has sent is on its way
	begun  chan struct{} // closed when the client has said what is to run
	pty    atomic.Bool
	out    sync.Mutex // near's stderr, of which x/crypto wants one writer at a time
	asked  sync.Mutex // held until a request of the client's is answered: that goes before the channel's end

	mu    sync.Mutex
	far   *sshlink.Channel
	early []byte // what the client has sent before far was there
	eof   bool   // and that nothing more comes
}

const (
	mostEarly = 64 << 10
	interrupt = 0x03 // Ctrl-C
)

// open takes a channel that the client asks for, or refuses it.
func (v *visitor) open(nc ssh.NewChannel) {
	kind := nc.ChannelType()
	to, host, err := destination(kind, nc.ExtraData())
	network, is := denied(host, v.g.cfg.Deny)
	v.mu.Lock()
	full, noMore := len(v.lines) >= mostLines, v.noMore && kind == kindSession
	v.mu.Unlock()
	switch {
	case err != nil:
		_ = nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	case is:
		v.record().Info("ssh refused", "reason", "a forward to "+network.String(), "to", to)
		_ = nc.Reject(ssh.Prohibited, "slipway: this site opens no forwards to "+network.String())
		return
	case noMore:
		_ = nc.Reject(ssh.Prohibited, "no more sessions were to be opened")
		return
	case full:
		_ = nc.Reject(ssh.ResourceShortage, "too many channels are open")
		return
	}
	l := v.newLine(kind, to)
	v.work.Go(func() {
		defer v.drop(l)
		l.serve(nc)
	})
}

func (v *visitor) newLine(kind, to string) *line {
	l := &line{
		v: v, kind: kind, to: to, since: time.Now(), opened: make(chan struct{}), gone: make(chan struct{}), sent: make(chan struct{}),
		begun: make(chan struct{}),
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines[l] = true
	return l
}

func (v *visitor) drop(l *line) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.lines, l)
}

// serve serves a channel that the client has asked for. One of a session is opened at once while that is being started, so that progress
// has a place; all others wait.
func (l *line) serve(nc ssh.NewChannel) {
	v := l.v
	if l.kind == kindSession && v.waits() {
		l.serveEarly(nc)
		return
	}
	select {
	case <-v.ready:
	case <-v.ctx.Done():
		return
	}
	if v.err != nil && l.kind == kindSession {
		l.serveEarly(nc)
		return
	}
	if v.err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, "slipway: "+v.words(v.err))
		return
	}
	far, err := v.far.Open(v.ctx, l.kind, nc.ExtraData())
	if err != nil {
		reason, message := refusal(err)
		_ = nc.Reject(ssh.RejectionReason(reason), message)
		return
	}
	near, reqs, err := nc.Accept()
	if err != nil {
		far.Cut()
		return
	}
	l.meet(near)
	l.begin(far)
	l.pump(reqs)
}

// meet says who is at the client's end.
func (l *line) meet(near ssh.Channel) {
	l.v.mu.Lock()
	defer l.v.mu.Unlock()
	l.near = near
}

// refusal tells the client what the session, or the way there, has said.
func refusal(err error) (reason uint32, message string) {
	if r, ok := err.(*sshlink.Refusal); ok {
		return r.Reason, r.Message
	}
	return uint32(ssh.ConnectionFailed), "the session cannot be reached"
}

// serveEarly serves a session's channel while it is not known yet whether the session can be reached.
func (l *line) serveEarly(nc ssh.NewChannel) {
	near, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	l.meet(near)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { l.ask(reqs) })
	work.Go(l.up)
	select {
	case <-l.v.ready:
	case <-l.gone:
		close(l.opened)
		_ = near.Close()
		return
	case <-l.v.ctx.Done():
		close(l.opened)
		<-l.v.parted
		return
	}
	if l.v.err != nil {
		l.fail(l.v.words(l.v.err))
		return
	}
	far, err := l.v.far.Open(l.v.ctx, l.kind, nc.ExtraData())
	if err != nil {
		_, message := refusal(err)
		l.fail(message)
		return
	}
	l.begin(far)
	l.down()
}

// fail tells the user what has become of her session, as soon as there is somebody to read it.
func (l *line) fail(why string) {
	close(l.opened)
	defer l.v.tellOnce.Do(func() { close(l.v.told) })
	defer l.near.Close()
	select {
	case <-l.begun:
	case <-l.gone:
		return
	case <-l.v.ctx.Done():
		return
	}
	l.say(why)
	_, _ = l.near.SendRequest("exit-status", false, noExit())
}

// begin hands over what has come so far.
func (l *line) begin(far *sshlink.Channel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.early) > 0 {
		_, _ = far.Write(l.early)
	}
	if l.eof {
		_ = far.CloseWrite()
	}
	l.far, l.early = far, nil
	close(l.opened)
}

// pump carries everything both ways until the channel has ended.
func (l *line) pump(reqs <-chan *ssh.Request) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { l.ask(reqs) })
	work.Go(l.up)
	l.down()
}

// ask carries the client's requests, in their order, until it closes the channel.
func (l *line) ask(reqs <-chan *ssh.Request) {
	if held, ok := l.hold(reqs); ok {
		if l.far != nil {
			l.makeUp(held)
		}
		for r := range reqs {
			l.note(r)
			l.forward(r)
		}
	}
	close(l.gone)
	if <-l.opened; l.far == nil {
		return
	}
	l.drain()
	_ = l.far.Close()
}

// stuckTime is how long the session may take nothing of what a client has left behind.
const stuckTime = 20 * time.Second

// drain waits until the session has what the client sent before it closed the channel.
func (l *line) drain() {
	look := time.NewTicker(stuckTime)
	defer look.Stop()
	for _, before := l.far.Moved(); ; {
		select {
		case <-l.sent:
			return
		case <-l.v.ctx.Done():
			return
		case <-l.far.Done():
			return
		case <-look.C:
			_, now := l.far.Moved()
			if now == before {
				return
			}
			before = now
		}
	}
}

// hold keeps requests until they can be forwarded. ok: the client has not closed the channel meanwhile. They are granted at once: many
// clients do nothing before they are, and show no progress.
func (l *line) hold(reqs <-chan *ssh.Request) (held []*ssh.Request, ok bool) {
	for {
		select {
		case <-l.opened:
			return held, true
		default:
		}
		select {
		case <-l.opened:
			return held, true
		case r, ok := <-reqs:
			if !ok {
				return nil, false
			}
			if len(held) >= mostRequests {
				l.v.end("too many requests wait for their answers")
				continue
			}
			_ = r.Reply(true, nil)
			l.note(r)
			held = append(held, r)
		}
	}
}

// note looks at what a request means for the gateway itself.
func (l *line) note(r *ssh.Request) {
	switch {
	case r.Type == "pty-req":
		l.pty.Store(true)
	case r.Type == "auth-agent-req@openssh.com":
		l.v.want(kindAgent)
	case r.Type == "x11-req":
		l.v.want(kindX11)
	case runs(r.Type):
		l.start()
	}
}

// makeUp makes the requests that were granted too early. What cannot be run after all ends the channel.
func (l *line) makeUp(held []*ssh.Request) {
	for _, r := range held {
		ok, err := l.far.Send(l.v.ctx, r.Type, r.WantReply, r.Payload)
		if ok || err != nil || !r.WantReply || !runs(r.Type) {
			continue
		}
		l.say("the session does not do this: " + r.Type)
		_, _ = l.near.SendRequest("exit-status", false, noExit())
		_ = l.near.Close()
	}
}

// runs reports whether a request is for what is to run in the channel.
func runs(kind string) bool { return kind == "shell" || kind == "exec" || kind == "subsystem" }

// noExit is the exit status of what has not come to run.
func noExit() []byte { return ssh.Marshal(struct{ Status uint32 }{255}) }

// forward makes a request of the client's in the session. Where there is none, all is granted: what the client is to be told comes next.
func (l *line) forward(r *ssh.Request) {
	if l.far == nil {
		_ = r.Reply(true, nil)
		return
	}
	l.asked.Lock()
	defer l.asked.Unlock()
	ok, err := l.far.Send(l.v.ctx, r.Type, r.WantReply, r.Payload)
	_ = r.Reply(ok && err == nil, nil)
}

// small is what an idle channel's buffer takes, and large that of a busy one.
const (
	small = 4 << 10
	large = 64 << 10
)

// up carries the client's data.
func (l *line) up() {
	defer close(l.sent)
	little := make([]byte, small)
	buf, taken := little, (*[large]byte)(nil)
	defer func() { l.v.g.give(taken) }()
	for {
		n, err := l.near.Read(buf)
		if n > 0 && !l.put(buf[:n]) {
			return
		}
		switch {
		case err != nil:
			l.finish()
			return
		case n == len(buf) && taken == nil:
			taken = buffers.Get().(*[large]byte)
			buf = taken[:]
		case n < small && taken != nil:
			l.v.g.give(taken)
			buf, taken = little, nil
		}
	}
}

// buffers are those of busy channels.
var buffers = sync.Pool{New: func() any { return new([large]byte) }}

func (g *Gate) give(b *[large]byte) {
	if b != nil {
		buffers.Put(b)
	}
}

// put sends data on, or keeps it until it can be sent. False: nobody takes it.
func (l *line) put(data []byte) bool {
	l.mu.Lock()
	far := l.far
	if far == nil {
		if l.pty.Load() && bytes.IndexByte(data, interrupt) >= 0 {
			l.v.giveUp(errInterrupted)
		}
		if len(l.early)+len(data) <= mostEarly {
			l.early = append(l.early, data...)
			l.mu.Unlock()
			return true
		}
	}
	l.mu.Unlock()
	if far == nil {
		<-l.opened
		if far = l.far; far == nil {
			return false
		}
	}
	_, err := far.Write(data)
	return err == nil
}

// finish says that the client sends nothing more.
func (l *line) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.far == nil {
		l.eof = true
		return
	}
	_ = l.far.CloseWrite()
}

// down carries the session's data and requests, and ends the channel as the session has.
func (l *line) down() {
	l.v.g.countLine(l.kind)
	defer l.audit()
	var out sync.WaitGroup
	var cut, errCut error
	out.Go(func() { _, cut = l.far.WriteTo(l.near) })
	out.Go(func() { _, errCut = io.Copy(lockedWriter{&l.out, l.near.Stderr()}, l.far.Stderr()) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if out.Wait(); cut == nil && errCut == nil { // both have come to their end, and not just to one
			l.out.Lock()
			defer l.out.Unlock()
			_ = l.near.CloseWrite()
		}
	}()
	for r := range l.far.Requests() {
		ok, err := l.near.SendRequest(r.Kind, r.Want, r.Payload)
		_ = r.Reply(ok && err == nil)
	}
	<-ended
	if l.far.Err() != nil && l.linkLost() {
		<-l.v.parted // which ends it, and not cleanly
		return
	}
	l.asked.Lock()
	defer l.asked.Unlock()
	_ = l.near.Close()
}

// lossTime is how long after one of its streams a link may be seen to be lost.
const lossTime = 300 * time.Millisecond

// linkLost reports whether it is the whole link that is cut, and not this channel alone.
func (l *line) linkLost() bool {
	select {
	case <-l.gone: // the client has closed it, which cuts the rest
		return false
	case <-l.v.far.Done():
		return true
	case <-l.v.ctx.Done():
		return true
	case <-time.After(lossTime):
		return false
	}
}

// lockedWriter writes when nobody else does.
type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

// Write writes.
func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// report tells of the start, where the client has a place for it. The visitor's lock is held.
func (l *line) report(message string) {
	select {
	case <-l.begun:
		if l.near != nil {
			l.say(message)
		}
	default:
	}
}

// start says that there is somebody to tell things, and tells what was told last.
func (l *line) start() {
	l.v.mu.Lock()
	defer l.v.mu.Unlock()
	select {
	case <-l.begun:
		return
	default:
		close(l.begun)
	}
	if l.v.waits() && l.v.latest != "" {
		l.say(l.v.latest)
	}
}

// say writes a line to the client's stderr.
func (l *line) say(text string) {
	end := "\n"
	if l.pty.Load() {
		end = "\r\n"
	}
	_, _ = lockedWriter{&l.out, l.near.Stderr()}.Write([]byte("slipway: " + text + end))
}

// sayGoodbye tells the user at her terminals why the connection ends.
func (v *visitor) sayGoodbye(why string) {
	v.mu.Lock()
	var terminals []*line
	for l := range v.lines {
		if l.near != nil && l.pty.Load() {
			terminals = append(terminals, l)
		}
	}
	v.mu.Unlock()
	for _, l := range terminals {
		if l.out.TryLock() { // else something is stuck there, and would be here
			_, _ = l.near.Stderr().Write([]byte("\r\nslipway: " + plain(why) + "\r\n"))
			l.out.Unlock()
		}
	}
}

// towards opens a channel to the client that the session asks for, if the client is ready for such.
func (v *visitor) towards(i *sshlink.Incoming) {
	v.mu.Lock()
	allowed, full := v.wanted[i.Kind], len(v.lines) >= mostLines
	v.mu.Unlock()
	if !allowed || full {
		_ = i.Refuse(uint32(ssh.Prohibited), "the client has not asked for such channels")
		return
	}
	l := v.newLine(i.Kind, "")
	v.work.Go(func() {
		defer v.drop(l)
		near, reqs, err := v.ssh.OpenChannel(i.Kind, i.Extra)
		if err != nil {
			_ = i.Refuse(uint32(ssh.ConnectionFailed), "the client refuses it")
			return
		}
		far, err := i.Accept(context.WithoutCancel(v.ctx))
		if err != nil {
			_ = near.Close()
			return
		}
		l.meet(near)
		l.begin(far)
		l.pump(reqs)
	})
}

// audit logs a channel at its end.
func (l *line) audit() {
	came, went := l.far.Moved()
	what := "ssh forward"
	attrs := []any{"kind", l.kind, "to_client", came, "to_session", went, "took", time.Since(l.since).Round(time.Millisecond)}
	if l.kind == kindSession {
		what = "ssh channel"
	}
	if l.to != "" {
		attrs = append(attrs, "to", l.to)
	}
	l.v.record().Info(what, attrs...)
}
