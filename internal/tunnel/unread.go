package tunnel

import (
	"fmt"
	"sync"

	"slipway/internal/units"
)

// userUnread is the most bytes that the agents of one user may have sent, over all her links, that nobody here has
// read. More than a hundred streams of a sound agent can stand still before it is reached.
const userUnread = 32 << 20

// unreadBook counts for users what has come and was not read.
type unreadBook struct {
	mu    sync.Mutex
	users map[string]int64
}

func newUnreadBook() *unreadBook { return &unreadBook{users: map[string]int64{}} }

// add counts bytes for a user, or takes them off, and reports whether she may have so many.
func (b *unreadBook) add(user string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	have := b.users[user] + n
	if b.users[user] = have; have <= 0 {
		delete(b.users, user)
	}
	return n <= 0 || have <= userUnread
}

// unread counts what a link has received and nobody has read, stream by stream: the multiplexer keeps it in memory.
// Nil: nothing is counted.
type unread struct {
	book *unreadBook
	user string

	mu      sync.Mutex
	streams map[uint32]*backlogOf
	over    bool
}

// backlogOf is what of one stream is unread. It is forgotten when the stream is left and the peer has ended it: until
// then more may come.
type backlogOf struct {
	bytes, most int64
	left, ended bool
}

func newUnread(book *unreadBook, user string) *unread {
	return &unread{book: book, user: user, streams: map[uint32]*backlogOf{}}
}

// arrived counts a frame of a stream. Its error says that the user has too much unread: the link is to be cut.
func (u *unread) arrived(stream, length uint32, ended bool) error {
	if u == nil || length == 0 && !ended {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return nil
	}
	s := u.streams[stream]
	if s == nil {
		s = &backlogOf{}
		u.streams[stream] = s
	}
	s.bytes += int64(length)
	s.most, s.ended = max(s.most, s.bytes), s.ended || ended
	allowed := u.book.add(u.user, int64(length))
	u.tidyLocked(stream, s)
	if !allowed {
		return fmt.Errorf("its user's workloads have sent %s that nobody reads", units.MemoryWords(userUnread))
	}
	return nil
}

// read takes off what was read, and reports whether the stream's buffer has become large and is empty: it is worth
// giving back then.
func (u *unread) read(stream uint32, n int) (drained bool) {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.streams[stream]
	if s == nil || u.over {
		return false
	}
	took := min(int64(n), s.bytes)
	s.bytes -= took
	u.book.add(u.user, -took)
	drained = s.bytes == 0 && s.most > copyLarge/4
	if s.bytes == 0 {
		s.most = 0
	}
	u.tidyLocked(stream, s)
	return drained
}

// leave says that nobody here will read on.
func (u *unread) leave(stream uint32) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.streams[stream]
	if s == nil || u.over {
		return
	}
	s.left = true
	u.tidyLocked(stream, s)
}

func (u *unread) tidyLocked(stream uint32, s *backlogOf) {
	if s.ended && (s.left || s.bytes == 0) {
		u.book.add(u.user, -s.bytes)
		delete(u.streams, stream)
	}
}

// close takes all off: the link has ended.
func (u *unread) close() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.streams {
		u.book.add(u.user, -s.bytes)
	}
	u.streams, u.over = nil, true
}
