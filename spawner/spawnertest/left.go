package spawnertest

import (
	"context"
	"io"
	"maps"
	"strings"
	"sync"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// left is what an agent of a Crew leaves when it ends on another host.
type left struct {
	status  control.Status
	log     string
	files   map[string]string
	changes string
	cut     bool // its changes did not come back whole

	mu    sync.Mutex
	taken bool // its changes were read to the end
}

var _ spawner.StagedOutput = (*left)(nil)

// pack returns what the agent of id leaves when it ends now; nil when there is none.
func (c *Crew) pack(id spawner.ID) *left {
	h := c.Hand(id)
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return &left{status: h.status, log: string(h.log), files: maps.Clone(h.files), changes: h.changes}
}

// Status returns the agent's last word.
func (l *left) Status() control.Status { return l.status }

// Log returns what was printed.
func (l *left) Log(_ context.Context, from int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(l.log[min(from, int64(len(l.log))):])), nil
}

// File returns a file.
func (l *left) File(_ context.Context, name string) (io.ReadCloser, int64, error) {
	content, ok := l.files[name]
	if !ok {
		return nil, 0, errs.New(errs.NotFound, "no file %s", name)
	}
	return io.NopCloser(strings.NewReader(content)), int64(len(content)), nil
}

// Changes returns what a session has changed.
func (l *left) Changes(context.Context) (io.ReadCloser, error) {
	if l.cut {
		return nil, errs.New(errs.Invalid, "only a part of it came back")
	}
	return io.NopCloser(&changesReader{strings.NewReader(l.changes), l}), nil
}

func (l *left) fetched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken || l.cut || l.changes == ""
}

// changesReader notes that all was read.
type changesReader struct {
	io.Reader
	of *left
}

// Read reads.
func (r *changesReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.EOF {
		r.of.mu.Lock()
		r.of.taken = true
		r.of.mu.Unlock()
	}
	return n, err
}
