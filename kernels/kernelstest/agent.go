// Package kernelstest has what every agent of a kernel passes that the service speaks with, the real one and those of
// tests.
//
// Promises: it knows an agent by its streams alone.
package kernelstest

import (
	"bufio"
	"bytes"
	"net"
	"testing"
	"time"

	"slipway/kernels/wire"
)

const patience = time.Minute

// Agents holds an agent to what the service relies on. Its kernel says at least one thing about each request. Dial
// opens a stream to it.
func Agents(t *testing.T, dial func(testing.TB) net.Conn) {
	for name, test := range map[string]func(*talk){
		"what is not acknowledged comes again": unacknowledged, "what is acknowledged does not": acknowledged,
		"what is taken is told":          taken,
		"what comes again is taken once": takenOnce, "who begins anew gets nothing of before": fresh,
		"a newer stream ends the older": replaced,
	} {
		t.Run(name, func(t *testing.T) { test(&talk{TB: t, dial: dial, client: name}) })
	}
}

// talk is one client's conversation with an agent.
type talk struct {
	testing.TB
	dial   func(testing.TB) net.Conn
	client string
}

// stream is one stream of it.
type stream struct {
	*talk
	conn    net.Conn
	in      *bufio.Reader
	welcome wire.Welcome
	out     chan []byte // frames: an agent may take nothing while it is not read from
	seq     uint64      // of the last message
	taken   uint64
}

// open opens a stream of the client, which says that of itself.
func (k *talk) open(h wire.Hello) *stream {
	k.Helper()
	h.Client = k.client
	s := &stream{talk: k, conn: k.dial(k), out: make(chan []byte, 10)}
	_ = s.conn.SetDeadline(time.Now().Add(patience))
	s.in = bufio.NewReader(s.conn)
	if err := wire.WriteHello(s.conn, h); err != nil {
		k.Fatal(err)
	}
	var err error
	if s.welcome, err = wire.ReadWelcome(s.in); err != nil || s.welcome.Error != "" || s.welcome.State == "" ||
		s.welcome.Takes != h.Takes {
		k.Fatalf("%+v, %v", s.welcome, err)
	}
	s.seq = s.welcome.Acked
	written := make(chan struct{})
	go func() { defer close(written); s.write() }()
	k.Cleanup(func() { close(s.out); _ = s.conn.Close(); <-written })
	return s
}

// write writes what is said. That it does not come is seen by what is not answered.
func (s *stream) write() {
	for b := range s.out {
		_, _ = s.conn.Write(b)
	}
}

// request makes a message of a client's.
func (k *talk) request() wire.Message {
	k.Helper()
	m, err := wire.New(wire.Shell, "execute_request", nil, map[string]string{"code": "1"})
	if err != nil {
		k.Fatal(err)
	}
	m.Header = bytes.Replace(m.Header, []byte(`"session":"`+wire.Session+`"`), []byte(`"session":"client"`), 1)
	return m
}

func (s *stream) say(m wire.Message) {
	var b bytes.Buffer
	_ = wire.WriteMessage(&b, wire.EncodeV1(m)) // it is not too large
	s.out <- b.Bytes()
}

func (s *stream) acknowledge(seq uint64) {
	var b bytes.Buffer
	_ = wire.WriteAck(&b, seq)
	s.out <- b.Bytes()
}

// next reads what comes next: numbers go up, and so does the count of what was taken.
func (s *stream) next() (d wire.Down, m wire.Message) {
	s.Helper()
	d, err := wire.ReadDown(s.in)
	switch {
	case err != nil:
		s.Fatalf("behind message %d: %v", s.seq, err)
	case d.Message == nil && (!s.welcome.Takes || d.Taken <= s.taken):
		s.Fatalf("%d were taken after %d", d.Taken, s.taken)
	case d.Message == nil:
		s.taken = d.Taken
		return d, m
	case d.Seq <= s.seq:
		s.Fatalf("message %d comes behind %d", d.Seq, s.seq)
	}
	s.seq = d.Seq
	if m, err = wire.DecodeV1(d.Message); err != nil {
		s.Fatal(err)
	}
	return d, m
}

// about returns the number of the first thing that is said about a request.
func (s *stream) about(r wire.Message) uint64 {
	s.Helper()
	for {
		if d, m := s.next(); d.Message != nil && m.ParentID() == r.ID() {
			return d.Seq
		}
	}
}

// wholly reads until a kernel has answered a request on both channels, or has echoed it.
func (s *stream) wholly(r wire.Message) {
	s.Helper()
	seen := map[string]bool{}
	for !seen["execute_request"] && !(seen["execute_reply"] && seen["status"]) {
		if _, m := s.next(); m.ParentID() == r.ID() {
			seen[m.Type()] = true
		}
	}
}

// counted reads until so many messages were taken.
func (s *stream) counted(n uint64) {
	s.Helper()
	for s.taken < n {
		s.next()
	}
	if s.taken != n {
		s.Errorf("%d were taken, not %d", s.taken, n)
	}
}

func unacknowledged(k *talk) {
	r := k.request()
	s := k.open(wire.Hello{})
	s.say(r)
	first := s.about(r)
	_ = s.conn.Close()
	if again := k.open(wire.Hello{}).about(r); again != first {
		k.Errorf("message %d comes again as %d", first, again)
	}
}

func acknowledged(k *talk) {
	r := k.request()
	s := k.open(wire.Hello{})
	s.say(r)
	first := s.about(r)
	s.acknowledge(first)
	r = k.request() // of which nothing is heard before the acknowledgement has come
	s.say(r)
	s.about(r)
	s = k.open(wire.Hello{})
	if s.welcome.Acked != first {
		k.Errorf("%d are acknowledged, not %d", s.welcome.Acked, first)
	}
	s.about(r) // behind it
}

func taken(k *talk) {
	s := k.open(wire.Hello{Takes: true})
	for range 3 {
		s.say(k.request())
	}
	s.counted(3)
	s = k.open(wire.Hello{Takes: true, Once: true})
	s.say(k.request())
	s.counted(1)
	s = k.open(wire.Hello{}) // an older service's, which knows no such count
	r := k.request()
	s.say(r)
	s.about(r)
}

func takenOnce(k *talk) {
	first, last := k.request(), k.request()
	s := k.open(wire.Hello{Takes: true})
	s.say(first)
	s.counted(1)
	for range 2 {
		s = k.open(wire.Hello{Takes: true, Once: true})
		s.say(first)
		s.counted(1)
	}
	s = k.open(wire.Hello{})
	s.say(last)
	said := map[string]int{} // about the first, by kind
	for end := false; !end; {
		_, m := s.next()
		if end = m.ParentID() == last.ID(); m.ParentID() == first.ID() {
			said[m.Type()]++
		}
	}
	for kind, n := range said {
		if n > 1 {
			k.Errorf("%d times %s", n, kind)
		}
	}
	if len(said) == 0 {
		k.Error("it was not taken at all")
	}
}

func fresh(k *talk) {
	first, second, last := k.request(), k.request(), k.request()
	s := k.open(wire.Hello{})
	s.say(first)
	s.say(second)
	s.wholly(second) // so all about the first has come
	s = k.open(wire.Hello{Fresh: true})
	s.say(last)
	for end := false; !end; {
		_, m := s.next()
		if end = m.ParentID() == last.ID(); m.ParentID() == first.ID() {
			k.Errorf("%s of before comes", m.Type())
		}
	}
}

func replaced(k *talk) {
	older := k.open(wire.Hello{})
	newer := k.open(wire.Hello{})
	for {
		if _, err := wire.ReadDown(older.in); err != nil {
			break
		}
	}
	r := k.request()
	newer.say(r)
	newer.about(r)
}
