package tunnel

import (
	"sync"
	"time"
)

// farewell notices that nobody is at the other end of a stream any more: the peer has closed it, both ways, and all
// that it had sent before has been read. Who carries bytes from elsewhere into the stream would learn of it only by the
// next that come, if any do.
type farewell struct {
	mu         sync.Mutex
	left, read bool
	then       func()
	late       *time.Timer
}

// AfterLeft has then called, at most once and before the stream is closed here, when nobody is at the other end any
// more, or when what the peer left behind was not read for long. It must not wait.
func (f *farewell) AfterLeft(then func()) {
	f.mu.Lock()
	f.then = then
	f.mu.Unlock()
	f.note(false, false)
}

// note takes down that the peer has left, or that all was read.
func (f *farewell) note(left, read bool) {
	if then := f.due(left, read); then != nil {
		then()
	}
}

func (f *farewell) due(left, read bool) (then func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.read = f.left || left, f.read || read
	switch {
	case f.then == nil || !f.left:
	case f.read:
		then, f.then = f.then, nil
	case f.late == nil:
		f.late = time.AfterFunc(halfOpenTime, func() { f.note(true, true) })
	}
	return then
}

// drop is for when the stream is closed here.
func (f *farewell) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.then = nil
	if f.late != nil {
		f.late.Stop()
	}
}
