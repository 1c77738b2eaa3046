package engine

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"slipway/spawner"
)

// diskUsage counts what jobs keep on the disk: their input files, their logs and what they have left. It is found by looking at their
// directories, when one has ended and at times all of them, and never for a request. A file that several have is shared out among them.
type diskUsage struct {
	mu   sync.Mutex
	jobs map[spawner.ID]goods
	sums map[spawner.Principal]sum
	due  map[spawner.Principal]bool // of whom what they have put is to be counted anew: jobs that had some of it are gone
}

// sum is what a user keeps.
type sum struct {
	bytes int64 // also what is being written
	spare int64
	blobs int
}

// goods is what one job keeps, what a bundle of input files does, or a file that a user has put for her jobs.
type goods struct {
	of    spawner.Principal
	bytes int64
	files int
	spare int64 // of bytes: what no job has
	blob  bool
}

func newDiskUsage() *diskUsage {
	return &diskUsage{jobs: map[spawner.ID]goods{}, sums: map[spawner.Principal]sum{}, due: map[spawner.Principal]bool{}}
}

// note says what a job keeps now.
func (s *diskUsage) note(id spawner.ID, g goods) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(id)
	s.jobs[id] = g
	s.addLocked(g, 1)
}

// addLocked adds g to what its owner keeps, or takes it off.
func (s *diskUsage) addLocked(g goods, n int64) {
	t := s.sums[g.of]
	t.bytes, t.spare = t.bytes+n*g.bytes, t.spare+n*g.spare
	if g.blob {
		t.blobs += int(n)
	}
	if s.sums[g.of] = t; t == (sum{}) {
		delete(s.sums, g.of)
	}
}

// reserve counts bytes that are going to be written, unless the user would keep more than most with them; 0: she may any. It gives what she
// keeps already.
func (s *diskUsage) reserve(o spawner.Principal, bytes, most int64) (have int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have = s.sums[o].bytes
	if most > 0 && have+bytes > most {
		return have, false
	}
	s.addLocked(goods{of: o, bytes: bytes}, 1)
	return have, true
}

// release takes reserved bytes off: they are counted as what they are now, or were not written.
func (s *diskUsage) release(o spawner.Principal, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(goods{of: o, bytes: bytes}, -1)
}

// recount has counted anew what the user has put who had id; recounts gives such users, once.
func (s *diskUsage) recount(id spawner.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, known := s.jobs[id]; known && s.sums[g.of].blobs > 0 {
		s.due[g.of] = true
	}
}

func (s *diskUsage) recounts() map[spawner.Principal]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.due
	s.due = map[spawner.Principal]bool{}
	return due
}

// drop says that a job keeps nothing any more.
func (s *diskUsage) drop(id spawner.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(id)
}

func (s *diskUsage) dropLocked(id spawner.ID) {
	g, known := s.jobs[id]
	if !known {
		return
	}
	delete(s.jobs, id)
	s.addLocked(g, -1)
}

// of returns what a user's jobs keep.
func (s *diskUsage) of(o spawner.Principal) sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sums[o]
}

// goods returns what some jobs keep, together.
func (s *diskUsage) goods(ids []spawner.ID) (all goods) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		g := s.jobs[id]
		all.bytes, all.files, all.spare = all.bytes+g.bytes, all.files+g.files, all.spare+g.spare
	}
	return all
}

// weigh looks at what a job keeps.
func (m *Manager) weigh(id spawner.ID, o spawner.Principal) {
	g := goods{of: o}
	_ = filepath.WalkDir(m.dir(id), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() && (d.Name() == "run" || d.Name() == "link"):
			return fs.SkipDir // what goes away while it is looked at is not kept
		case d.Type().IsRegular():
			info, err := d.Info()
			if err == nil && strings.HasPrefix(d.Name(), partial) && info.ModTime().Before(m.born) {
				err = os.Remove(path) // of a service that was killed while it fetched it; what is still wanted is fetched anew
				info = nil
			}
			if err == nil && info != nil {
				g.files, g.bytes = g.files+1, g.bytes+shareOf(info)
			}
		}
		return nil
	})
	m.diskUsage.note(id, g)
	if m.knows(id) {
		return
	}
	m.diskUsage.drop(id) // it was forgotten meanwhile
}

// shareOf returns a file's size, of one that has several names what each of them bears.
func shareOf(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		return info.Size() / int64(st.Nlink)
	}
	return info.Size()
}

// How often all that jobs keep is looked at anew. It takes a hundredth of the time at most.
const (
	measureEvery = time.Hour
	measurePause = 100
)

// measureDisk looks at what jobs keep, until ctx ends.
func (m *Manager) measureDisk(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		for id, o := range m.owners() {
			if ctx.Err() == nil {
				m.weigh(id, o)
			}
		}
		for b, o := range m.bundleOwners() {
			if ctx.Err() == nil {
				m.weighBundle(b, o)
			}
		}
		pause(ctx, max(measureEvery, measurePause*time.Since(begun)))
	}
}

// owners returns all jobs and whose they are.
func (m *Manager) owners() map[spawner.ID]spawner.Principal {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := map[spawner.ID]spawner.Principal{}
	for id, e := range m.work {
		if e.Kind == spawner.Job {
			all[id] = e.Principal()
		}
	}
	return all
}
