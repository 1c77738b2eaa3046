package engine

import (
	"io"

	"slipway/internal/errs"
	"slipway/internal/memsize"
	"slipway/spawner"
	"slipway/spawner/sched"
)

// roomStep is how many bytes are written before the room on the disk is looked at again, which others fill at the same time.
const roomStep = 16 << 20

// meter writes what a user puts, as long as she may keep it and there is room.
type meter struct {
	m     *Manager
	of    spawner.Principal
	to    io.Writer
	most  int64 // that she may keep; 0: any
	room  int64 // until the disk is looked at again
	taken int64 // in the stock
}

func (m *Manager) meter(o spawner.Principal, to io.Writer) *meter {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return &meter{m: m, of: o, to: to, most: m.sched.Allowance(o).Storage}
}

// Write takes what is written before it is.
func (w *meter) Write(p []byte) (int, error) {
	n := int64(len(p))
	if w.room < n {
		room, err := w.m.cfg.Room(w.m.blobs(w.of))
		if err != nil {
			return 0, err
		}
		if room < n {
			return 0, errFull
		}
		w.room = min(room, max(roomStep, n))
	}
	if err := w.m.reserve(w.of, n, w.most); err != nil {
		return 0, err
	}
	w.room, w.taken = w.room-n, w.taken+n
	return w.to.Write(p)
}

// reserve takes so many bytes from what a user's jobs may keep, until they are released.
func (m *Manager) reserve(o spawner.Principal, bytes, most int64) error {
	have, ok := m.diskUsage.reserve(o, bytes, most)
	if ok {
		return nil
	}
	m.mu.Lock()
	m.refused[sched.RefusedStorage]++
	m.mu.Unlock()
	return overStorage(have, bytes, most)
}

// reserveInputs takes what a request brings along, until release: by then it is counted.
func (m *Manager) reserveInputs(o spawner.Principal, r submission) (release func(), err error) {
	bytes := m.demand(r, 1).bytes
	if bytes == 0 {
		return func() {}, nil
	}
	m.mu.RLock()
	most := m.sched.Allowance(o).Storage
	m.mu.RUnlock()
	if err := m.reserve(o, bytes, most); err != nil {
		return nil, err
	}
	return func() { m.diskUsage.release(o, bytes) }, nil
}

// overStorage is the error of what would be more than a user's jobs may keep.
func overStorage(have, more, most int64) error {
	return errs.New(errs.OverQuota, "your jobs keep %s of files, and with %s more that is over the %s that they may",
		memsize.Words(have), memsize.Words(more), memsize.Words(most)).
		With("`slipway jobs du` shows which keep most, and `slipway jobs rm` removes one with its files")
}
