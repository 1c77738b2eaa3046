package sshgate

import (
	"io"
	"sync"
	"time"

	"slipway/internal/sshtunnel"
)

// down carries the session's data and requests, and ends the channel as the session has.
func (l *line) down() {
	l.v.g.countLine(l.kind)
	defer l.audit()
	var asking sync.WaitGroup
	passed, told := make(chan struct{}), make(chan struct{})
	asking.Go(func() { l.askNear(passed, told) })
	if l.far.Pass(l.near, lockedWriter{&l.out, l.near.Stderr()}) == nil {
		close(passed)
		<-told
		l.out.Lock()
		_ = l.near.CloseWrite()
		l.out.Unlock()
	}
	asking.Wait()
	if l.far.Err() != nil && l.linkLost() {
		<-l.v.parted // which ends it, and not cleanly
		return
	}
	l.asked.Lock()
	defer l.asked.Unlock()
	_ = l.near.Close()
}

// askNear passes on what the session asks of the client, until the channel ends. When passed is closed, for the session
// has no more data, told is as soon as all is passed on that has come before. A client may close the channel once it
// hears of the end of the data, and hears nothing more then: how its command has ended goes first.
func (l *line) askNear(passed <-chan struct{}, told chan<- struct{}) {
	tell := sync.OnceFunc(func() { close(told) })
	defer tell()
	requests := l.far.Requests()
	for {
		select {
		case r, ok := <-requests:
			if !ok {
				return
			}
			l.askOne(r)
		case <-passed:
			passed = nil
			for len(requests) > 0 {
				l.askOne(<-requests)
			}
			tell()
		}
	}
}

func (l *line) askOne(r *sshtunnel.Request) {
	ok, err := l.near.SendRequest(r.Kind, r.Want, r.Payload)
	_ = r.Reply(ok && err == nil)
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
