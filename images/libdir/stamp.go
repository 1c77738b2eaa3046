package libdir

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Stamp tells whether a file may have changed since its bytes were compared with their digests.
type Stamp struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"` // nanoseconds since 1970, as the next one
	Ctime int64  `json:"ctime"`
}

func stampOf(st unix.Stat_t) Stamp {
	return Stamp{st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// StampOf returns the stamp of an open file.
func StampOf(f *os.File) (Stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Stamp{}, &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	return stampOf(st), nil
}

// StampAt returns the stamp of the file at a path.
func StampAt(path string) (Stamp, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Stamp{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return stampOf(st), nil
}

// Stamps remembers files by their digests.
type Stamps struct {
	mu   sync.Mutex
	seen map[string]Stamp
}

// Set remembers how the file of a digest is.
func (s *Stamps) Set(digest string, st Stamp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]Stamp{}
	}
	s.seen[digest] = st
}

// Is reports whether a file is as it was remembered.
func (s *Stamps) Is(digest string, st Stamp) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.seen[digest]
	return ok && known == st
}

// Forget lets a digest go.
func (s *Stamps) Forget(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.seen, digest)
}
