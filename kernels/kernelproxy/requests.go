package kernelproxy

import (
	"hash/maphash"
	"slices"
	"strings"

	"slipway/kernels/wire"
)

const (
	mostRequests = 4096     // of which it is known whose they are
	mostKept     = 64 << 20 // bytes of messages that may have to be sent once more
	mostSeen     = 1 << 17  // messages of the kernel's: more than its agent keeps for one client
)

// request is a message of a client's.
type request struct {
	id   string
	from *peer // of the client
	m    wire.Message
	open bool // the client waits for an answer
	sent bool // by the connection that there is now
}

func (r *request) kind() string { return r.m.Type() }

// answer is the kind of message that answers the request.
func (r *request) answer() string { return strings.TrimSuffix(r.kind(), "_request") + "_reply" }

// requests are the clients' messages: whose they are, and which of them the kernel may not have. Its zero value has
// none.
type requests struct {
	byID  map[string]*request
	ring  []*request // in order, the oldest is forgotten first
	line  []*request // in order: of these there is no sign yet that the kernel has them
	bytes int        // of line
}

// add takes a new message.
func (q *requests) add(from *peer, m wire.Message) *request {
	r := &request{id: m.ID(), from: from, m: m}
	r.open = strings.HasSuffix(r.kind(), "_request")
	if q.byID == nil {
		q.byID = map[string]*request{}
	}
	q.byID[r.id] = r
	q.ring = append(q.ring, r)
	if len(q.ring) > mostRequests {
		if old := q.ring[0]; q.byID[old.id] == old {
			delete(q.byID, old.id)
		}
		q.ring = slices.Clone(q.ring[1:])
	}
	return r
}

// enqueue puts a message in line for the kernel. What was sent and is too large to be kept is not sent once more.
func (q *requests) enqueue(r *request) {
	q.line, q.bytes = append(q.line, r), q.bytes+r.m.Size()
	for q.bytes > mostKept && q.line[0].sent {
		q.drop(1)
	}
}

// next returns what is to be sent; nil: nothing.
func (q *requests) next() *request {
	at := slices.IndexFunc(q.line, func(r *request) bool { return !r.sent })
	if at < 0 {
		return nil
	}
	q.line[at].sent = true
	return q.line[at]
}

// again has all be sent once more of which there is no sign that the kernel has it. It takes each once.
func (q *requests) again() {
	for _, r := range q.line {
		r.sent = false
	}
}

// known notes that the kernel has spoken about a message: it has that, and all that was sent before.
func (q *requests) known(id string) *request {
	if at := slices.IndexFunc(q.line, func(r *request) bool { return r.id == id }); at >= 0 && q.line[at].sent {
		q.drop(at + 1)
	}
	return q.byID[id]
}

// largest takes the largest message of those that were sent out of the line; nil: none was.
func (q *requests) largest() (r *request) {
	for _, one := range q.line {
		if one.sent && (r == nil || one.m.Size() > r.m.Size()) {
			r = one
		}
	}
	q.remove(r)
	return r
}

func (q *requests) drop(n int) {
	for _, r := range q.line[:n] {
		q.bytes -= r.m.Size()
	}
	q.line = slices.Clone(q.line[n:])
}

// withdraw takes a message out of the line. It says no if it was sent.
func (q *requests) withdraw(r *request) bool { return !r.sent && q.remove(r) }

// remove reports whether the message was in line.
func (q *requests) remove(r *request) bool {
	at := slices.Index(q.line, r)
	if at < 0 {
		return false
	}
	q.line, q.bytes = slices.Delete(q.line, at, at+1), q.bytes-r.m.Size()
	return true
}

// open returns those that somebody waits for, in order.
func (q *requests) open(kinds ...string) (list []*request) {
	for _, r := range q.ring {
		if r.open && (len(kinds) == 0 || slices.Contains(kinds, r.kind())) {
			list = append(list, r)
		}
	}
	return list
}

// seen knows which messages of the kernel's have come. After a loss of the connection those come once more of which the
// agent does not know that they have come.
type seen struct {
	seed   maphash.Seed
	latest *wire.Latest[uint64]
}

func newSeen() *seen { return &seen{maphash.MakeSeed(), wire.NewLatest[uint64](mostSeen)} }

// first reports whether a message comes for the first time.
func (s *seen) first(id string) bool { return s.latest.First(maphash.String(s.seed, id)) }
