package sshgate

import "sync"

// starts are the starts that visitors wait for. One that the gateway has asked for is taken back when nobody waits for it any more.
type starts struct {
	mu  sync.Mutex
	all map[startKey]*start
}

type startKey struct {
	owner  Owner
	server string
}

type start struct {
	waiting int
	ours    bool
}

func newStarts() *starts { return &starts{all: map[startKey]*start{}} }

// join says that somebody waits.
func (s *starts) join(k startKey) *start {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.all[k]
	if st == nil {
		st = &start{}
		s.all[k] = st
	}
	st.waiting++
	return st
}

// leave says that somebody does not wait any more. asked: the gateway has asked for the start, for her; up: it has come to its end. It
// reports whether the start is to be taken back.
func (s *starts) leave(k startKey, st *start, asked, up bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.ours = (st.ours || asked) && !up
	if st.waiting--; st.waiting > 0 {
		return false
	}
	delete(s.all, k)
	return st.ours
}
