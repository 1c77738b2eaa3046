package sshgate

import (
	"time"

	"golang.org/x/crypto/ssh"
)

// ask carries the client's requests, in their order, until it closes the channel.
func (l *line) ask(came <-chan *ssh.Request) {
	reqs := make(chan *ssh.Request)
	l.v.work.Go(func() { l.collect(came, reqs) })
	held, more := l.hold(reqs)
	if more {
		if l.far != nil {
			l.makeUp(held)
		}
		for r := range reqs {
			l.forward(r)
		}
	}
	close(l.gone)
	if <-l.opened; l.far == nil {
		return
	}
	if !more { // what it has asked for and did not wait for
		l.makeUp(held)
	}
	l.letFlow()
	l.drain()
	_ = l.far.Close()
}

// collect takes requests as they come, and hands them on in their order. x/crypto reads nothing more of the whole
// connection while some of one channel wait, and a session that takes no input keeps what comes behind it from being
// sent. Only the last size of a window counts.
func (l *line) collect(came <-chan *ssh.Request, next chan<- *ssh.Request) {
	defer close(next)
	var waiting []*ssh.Request
	for came != nil || len(waiting) > 0 {
		var to chan<- *ssh.Request
		var first *ssh.Request
		if len(waiting) > 0 {
			to, first = next, waiting[0]
		}
		select {
		case to <- first:
			waiting = waiting[1:]
		case r, ok := <-came:
			last := len(waiting) - 1
			switch {
			case !ok:
				came = nil
			case last >= 0 && resizes(waiting[last]) && resizes(r):
				waiting[last] = r
			case len(waiting) >= mostRequests:
				l.v.end(tooManyRequests)
			default:
				waiting = append(waiting, r)
			}
		}
	}
}

// resizes reports whether a request is for another size of a window, and for nothing else.
func resizes(r *ssh.Request) bool { return r.Type == "window-change" && !r.WantReply }

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

// runs reports whether a request is for what is to run in the channel.
func runs(kind string) bool { return kind == "shell" || kind == "exec" || kind == "subsystem" }

// forward makes a request of the client's in the session. Where there is none, all is granted: what the client is to be
// told comes next, and ends the channel.
func (l *line) forward(r *ssh.Request) {
	if l.far == nil {
		_ = r.Reply(true, nil)
		l.note(r)
		return
	}
	l.note(r)
	l.asked.Lock()
	defer l.asked.Unlock()
	ok, err := l.send(r)
	_ = r.Reply(ok && err == nil, nil)
}

// send makes a request in the session. Of what is to run it is always asked for an answer, so that the log names what
// does.
func (l *line) send(r *ssh.Request) (bool, error) {
	ok, err := l.far.Send(l.v.ctx, r.Type, r.WantReply || runs(r.Type), r.Payload)
	if ok && err == nil && runs(r.Type) {
		l.ran(r)
	}
	if runs(r.Type) {
		l.letFlow()
	}
	return ok, err
}

// letFlow lets a session have the client's data, of which it holds little before it has something to run: clients do
// not wait for the answer to what they want to run, and data that overtook the request would stop it.
func (l *line) letFlow() { l.flow.Do(func() { close(l.flows) }) }
