package agent

import (
	"encoding/json"
	"io"
	"os"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
)

const (
	progressEvery = time.Second
	progressBytes = 4 << 10 // of the file: more is no progress
)

// progressFile is where a job's payload says how far it is. The payload may put anything in its place.
type progressFile struct {
	path string
	seen syscall.Stat_t // of what was read last
}

// read returns what the file says, nil when it says nothing new or nothing sound. It follows no link, waits for no
// pipe, and reads no more than a progress can have.
func (p *progressFile) read() *control.Progress {
	f, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	var st syscall.Stat_t
	if syscall.Fstat(int(f.Fd()), &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG || !p.differs(st) {
		return nil
	}
	p.seen = st
	b, err := io.ReadAll(io.LimitReader(f, progressBytes+1))
	if err != nil || len(b) > progressBytes {
		return nil
	}
	var said control.Progress
	if json.Unmarshal(b, &said) != nil {
		return nil
	}
	said = said.Sound()
	return &said
}

// differs reports whether the file is another than the one that was read last, or has been written to since.
func (p *progressFile) differs(st syscall.Stat_t) bool {
	return st.Ino != p.seen.Ino || st.Mtim != p.seen.Mtim || st.Size != p.seen.Size
}

// await waits for the app's end, and tells meanwhile what it says of how far it is: at last what it said last.
func (s *supervisor) await(done <-chan process.Exit, file *progressFile) process.Exit {
	every := time.NewTicker(progressEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			s.tellProgress(file)
		case e := <-done:
			s.tellProgress(file)
			return e
		}
	}
}

func (s *supervisor) tellProgress(file *progressFile) {
	said := file.read()
	s.mu.Lock()
	defer s.mu.Unlock()
	if said != nil && (s.status.Progress == nil || *said != *s.status.Progress) {
		s.setLocked(func(st *control.Status) { st.Progress = said })
	}
}
