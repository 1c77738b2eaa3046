package transfer

import (
	"io"
	"sync"

	"slipway/images/oci"
)

// Progress says how far a push or a pull has come.
type Progress struct {
	Content string // digest of what is moving
	Done    int64  // bytes that are in place
	Total   int64  // bytes that have to move; what is there already is not counted
	Moved   int64  // bytes that crossed the network, those that were sent or received in vain included
}

const reportEvery = 1 << 20

// meter collects progress. Report is called by one goroutine at a time.
type meter struct {
	mu     sync.Mutex
	report func(Progress)
	now    Progress
	before int64 // bytes of blobs that are complete
	told   int64
}

// expect adds to what has to move.
func (m *meter) expect(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Total += bytes
}

// at says that so much of the blob in transit is in place.
func (m *meter) at(d oci.Descriptor, position int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Content, m.now.Done = d.Digest.String(), m.before+position
	m.tell()
}

// move counts bytes on the wire.
func (m *meter) move(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Moved += int64(n)
	m.now.Done += int64(n)
	if m.now.Moved-m.told >= reportEvery {
		m.tell()
	}
}

// done says that a blob is complete.
func (m *meter) done(d oci.Descriptor) {
	m.at(d, d.Size)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before += d.Size
}

func (m *meter) tell() {
	m.told = m.now.Moved
	if m.report != nil {
		m.report(m.now)
	}
}

func (m *meter) moved() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Moved
}

// counted counts what is read through it.
type counted struct {
	io.Reader
	meter *meter
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.meter.move(n)
	return n, err
}
