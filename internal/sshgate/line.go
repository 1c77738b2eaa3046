package sshgate

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"slipway/internal/sshtunnel"
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
	flows  chan struct{} // closed when the session has been asked to run it, or never will be
	news   chan string   // of the start, for the client
	flow   sync.Once     // closes flows
	taken  bool          // one of the session's streams
	pty    atomic.Bool
	out    sync.Mutex // near's stderr, of which x/crypto wants one writer at a time
	asked  sync.Mutex // held until a request of the client's is answered: that goes before the channel's end

	mu    sync.Mutex
	far   *sshtunnel.Channel
	early []byte // what the client has sent before far was there
	eof   bool   // and that nothing more comes
	what  string // what runs in it, for the log: a shell, a command, a subsystem
}

func (v *visitor) newLine(kind, to string) *line {
	l := &line{
		v: v, kind: kind, to: to, since: time.Now(), opened: make(chan struct{}), gone: make(chan struct{}),
		sent:  make(chan struct{}),
		begun: make(chan struct{}), flows: make(chan struct{}), news: make(chan string, mostNews),
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines[l] = true
	return l
}

func (v *visitor) drop(l *line) {
	if l.taken {
		v.g.releaseStream(v.session.ID)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.lines, l)
}

// serve serves a channel that the client has asked for. One of a session is opened at once while that is being started,
// so that progress has a place; all others wait.
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
		_ = nc.Reject(ssh.ConnectionFailed, "slipway: "+strings.Join(words(v.err), "; "))
		v.tellOnce.Do(func() { close(v.told) })
		return
	}
	far, err := l.reach(func() (*sshtunnel.Channel, error) { return v.far.Open(v.ctx, l.kind, nc.ExtraData()) })
	if err != nil {
		reason, message := refusal(err)
		l.missed(err)
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

// begin hands over what has come so far.
func (l *line) begin(far *sshtunnel.Channel) {
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
