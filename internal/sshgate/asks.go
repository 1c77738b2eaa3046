package sshgate

import (
	"time"

	"golang.org/x/crypto/ssh"
)

// ask carries the client's requests, in their order, until it closes the channel.
func (l *line) ask(reqs <-chan *ssh.Request) {
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

// forward makes a request of the client's in the session. Where there is none, all is granted: what the client is to be told comes next,
// and ends the channel.
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

// send makes a request in the session. Of what is to run it is always asked for an answer, so that the log names what does.
func (l *line) send(r *ssh.Request) (bool, error) {
	ok, err := l.far.Send(l.v.ctx, r.Type, r.WantReply || runs(r.Type), r.Payload)
	if ok && err == nil && runs(r.Type) {
		l.ran(r)
	}
	return ok, err
}
