package sshtunnel

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// moody takes at once what it likes, and all when it is waited for.
type moody struct {
	mu    sync.Mutex
	got   bytes.Buffer
	tried int
	none  chan struct{} // not nil: it takes nothing until it is closed
}

func (m *moody) Try(p []byte) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.none != nil {
		return 0
	}
	n := rand.IntN(2 * len(p))
	n = min(n, len(p))
	m.tried += n
	m.got.Write(p[:n])
	return n
}

func (m *moody) Write(p []byte) (int, error) {
	if m.none != nil {
		<-m.none
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got.Write(p)
}

// TestFeed: what is written at once, and what is not, is all of it in its order.
func TestFeed(t *testing.T) {
	want := make([]byte, 8<<20)
	for i := range want {
		want[i] = byte(i * i >> 8)
	}
	q, m := newQueue(), &moody{}
	_ = q.put(bytes.NewReader(want), 1000) // before anybody reads
	fed := make(chan error, 1)
	go func() { fed <- q.feed(m) }()
	for rest := want[1000:]; len(rest) > 0; {
		n := min(1+rand.IntN(2*frameSize), len(rest))
		if err := q.put(bytes.NewReader(rest), n); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	q.end(io.EOF)
	if err := <-fed; err != nil || !bytes.Equal(m.got.Bytes(), want) || m.tried == 0 {
		t.Errorf("%d bytes of %d, %d of them at once, %v", m.got.Len(), len(want), m.tried, err)
	}
}

// TestFeedCut: a cut is no end, also while the reader takes nothing, and nobody waits for that.
func TestFeedCut(t *testing.T) {
	q, m := newQueue(), &moody{none: make(chan struct{})}
	fed := make(chan error, 1)
	go func() { fed <- q.feed(m) }()
	if err := q.put(bytes.NewReader(make([]byte, 5*frameSize)), 5*frameSize); err != nil {
		t.Fatal(err)
	}
	q.end(ErrCut)
	close(m.none)
	if err := <-fed; !errors.Is(err, ErrCut) {
		t.Error(err)
	}
}
