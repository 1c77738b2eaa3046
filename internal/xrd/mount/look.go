package mount

import (
	"context"
)

// looksAtOnce bounds the looks at one view of an element, of all sessions. A look at a mount whose storage is silent
// comes back only when xrootdfs gives up or is ended, and holds a thread of whoever looks until then.
const looksAtOnce = 8

// looks knows which looks are under way.
type looks struct {
	free   map[string]chan struct{} // by name of the view
	asking map[string]bool          // mounts with one; guarded by the Mounter's lock
}

func newLooks(all []view) looks {
	l := looks{map[string]chan struct{}{}, map[string]bool{}}
	for _, v := range all {
		l.free[v.name()] = make(chan struct{}, looksAtOnce)
	}
	return l
}

// answers looks at a mount. Of one that does not answer one look at a time is under way, however often it is asked for;
// what is mounted there instead later has another name, and does not wait for that.
func (m *Mounter) answers(ctx context.Context, v view, point, name string) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Patience)
	defer cancel()
	free, which := m.looks.free[v.name()], point+"\x00"+name
	if !m.asks(which) {
		return context.DeadlineExceeded
	}
	select {
	case free <- struct{}{}:
	case <-ctx.Done(): // that many others of this element do not answer
		m.asked(which)
		return ctx.Err()
	}
	said := make(chan error, 1)
	go func() {
		err := m.cfg.Look(point)
		<-free
		m.asked(which)
		said <- err
	}()
	select {
	case err := <-said:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// asks notes that a look at a mount begins, and reports whether none is under way.
func (m *Mounter) asks(which string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looks.asking[which] {
		return false
	}
	m.looks.asking[which] = true
	return true
}

func (m *Mounter) asked(which string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.looks.asking, which)
}
