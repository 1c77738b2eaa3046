package jobfiles

import (
	"io"

	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
)

// roomStep is how many bytes are written before the room on the disk is looked at again, which others fill at the same
// time.
const roomStep = 16 << 20

// quotaWriter writes what a user puts, as long as their quota and the disk have room for it.
type quotaWriter struct {
	s     *Store
	owner spawner.Principal
	to    io.Writer
	most  int64 // bytes that the user may keep; 0: any number
	room  int64 // until the disk is looked at again
	taken int64 // bytes reserved
}

// Write reserves what is written before it is.
func (w *quotaWriter) Write(p []byte) (int, error) {
	n := int64(len(p))
	if w.room < n {
		room, err := w.s.cfg.Room(w.s.blobDir(w.owner))
		if err != nil {
			return 0, err
		}
		if room < n {
			return 0, errFull
		}
		w.room = min(room, max(roomStep, n))
	}
	if err := w.s.reserve(w.owner, n, w.most); err != nil {
		return 0, err
	}
	w.room, w.taken = w.room-n, w.taken+n
	return w.to.Write(p)
}

// reserve takes bytes from a user's quota, until they are released.
func (s *Store) reserve(o spawner.Principal, bytes, most int64) error {
	have, ok := s.usage.reserve(o, bytes, most)
	if ok {
		return nil
	}
	s.cfg.Refused()
	return OverQuota(have, bytes, most)
}

// Reserve takes the bytes of a user's new input files from their quota, until release: by then they are counted.
func (s *Store) Reserve(o spawner.Principal, bytes int64) (release func(), err error) {
	if bytes == 0 {
		return func() {}, nil
	}
	if err := s.reserve(o, bytes, s.cfg.Quota(o)); err != nil {
		return nil, err
	}
	return func() { s.usage.release(o, bytes) }, nil
}

// OverQuota is the error of what would be more than a user's jobs may keep.
func OverQuota(have, more, most int64) error {
	return errs.New(errs.OverQuota, "your jobs keep %s of files, and with %s more that is over the %s that they may",
		units.MemoryWords(have), units.MemoryWords(more), units.MemoryWords(most)).
		With("`slipway jobs du` shows which keep most, and `slipway jobs rm` removes one with its files")
}
