package libdir

import (
	"log/slog"
	"path/filepath"
	"sync"
	"time"
)

// KeptStamps are Stamps that are known after a restart as well, for files that take long to compare. A disk may spoil
// what nobody touches: so a comparison counts for CountsFor alone.
type KeptStamps struct {
	File   string // that they are kept in
	Now    func() time.Time
	Logger *slog.Logger

	mu   sync.Mutex
	seen map[string]compared
}

// CountsFor is how long a comparison counts.
const CountsFor = 30 * 24 * time.Hour

// compared is a file as it was when it was compared.
type compared struct {
	Stamp Stamp     `json:"stamp"`
	At    time.Time `json:"at"`
}

// Load reads what an earlier process has noted, before anything else is asked of s. What cannot be read is not known,
// and costs time alone.
func (s *KeptStamps) Load() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ReadJSON(s.File, &s.seen); err != nil || s.seen == nil {
		s.seen = map[string]compared{}
	}
}

// Is reports whether a file is as it was when it was compared, not too long ago.
func (s *KeptStamps) Is(digest string, st Stamp) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.seen[digest]
	return ok && known.Stamp == st && s.counts(known)
}

// Set notes that the file of a digest was compared now.
func (s *KeptStamps) Set(digest string, st Stamp) {
	s.change(func() { s.seen[digest] = compared{st, s.Now().UTC()} })
}

// Forget lets a digest go.
func (s *KeptStamps) Forget(digest string) {
	s.change(func() { delete(s.seen, digest) })
}

func (s *KeptStamps) counts(c compared) bool { return s.Now().Sub(c.At).Abs() < CountsFor }

func (s *KeptStamps) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	for digest, c := range s.seen {
		if !s.counts(c) {
			delete(s.seen, digest)
		}
	}
	if err := WriteJSON(filepath.Dir(s.File), filepath.Base(s.File), s.seen); err != nil {
		s.Logger.Warn("it cannot be noted which files are sound: they are read again after a restart", "error", err)
	}
}
