package sshgate

import (
	"bytes"
	"sync"
)

const (
	mostEarly = 64 << 10
	interrupt = 0x03 // Ctrl-C
)

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
	if l.kind == kindSession {
		<-l.flows
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
