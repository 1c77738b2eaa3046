package jobfiles

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
)

// How often all that jobs keep is measured again. It takes a hundredth of the time at most.
const (
	measureEvery = time.Hour
	measurePause = 100
)

// MeasureAll measures what all jobs keep, again and again until ctx ends.
func (s *Store) MeasureAll(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		jobs, bundles := s.cfg.Owners()
		for id, o := range jobs {
			if ctx.Err() == nil {
				s.Measure(id, o)
			}
		}
		for b, o := range bundles {
			if ctx.Err() == nil {
				s.MeasureBundle(b, o)
			}
		}
		clock.Sleep(ctx, max(measureEvery, measurePause*time.Since(begun)))
	}
}

// Measure counts what a job keeps, and removes what a killed service has left of a file that it fetched: what is still
// wanted is fetched again.
func (s *Store) Measure(id spawner.ID, o spawner.Principal) {
	i := item{owner: o}
	_ = filepath.WalkDir(s.Dir(id), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() && (d.Name() == "run" || d.Name() == "link"):
			return fs.SkipDir // what goes away while it is looked at is not kept
		case d.Type().IsRegular():
			info, err := d.Info()
			if err == nil && strings.HasPrefix(d.Name(), partial) && info.ModTime().Before(s.born) {
				err = os.Remove(path)
				info = nil
			}
			if err == nil && info != nil {
				i.size.Files, i.size.Bytes = i.size.Files+1, i.size.Bytes+shareOf(info)
			}
		}
		return nil
	})
	if s.usage.note(string(id), i); !s.cfg.HasRecord(id) { // it was removed meanwhile
		s.Uncount(id)
	}
}

// MeasureBundle counts what a bundle keeps, once for all that have it.
func (s *Store) MeasureBundle(b spawner.ID, o spawner.Principal) {
	i := item{owner: o}
	entries, _ := os.ReadDir(s.bundle(b))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			i.size.Files, i.size.Bytes = i.size.Files+1, i.size.Bytes+shareOf(info)
		}
	}
	if s.usage.note(s.bundle(b), i); !s.cfg.Needed(b) { // it was cleared meanwhile
		s.usage.drop(s.bundle(b))
	}
}

// MeasureBlob counts a user's blob. Of one that jobs have too, it bears its part.
func (s *Store) MeasureBlob(o spawner.Principal, digest string) { s.measureBlob(o, s.blob(o, digest)) }

func (s *Store) measureBlob(o spawner.Principal, path string) {
	info, err := os.Lstat(path)
	if err != nil {
		s.usage.drop(path)
		return
	}
	i := item{owner: o, size: Size{Bytes: shareOf(info), Files: 1}, blob: true}
	if links(info) == 1 {
		i.unused = i.size.Bytes
	}
	s.usage.note(path, i)
	if _, err := os.Lstat(path); err != nil { // it was removed meanwhile
		s.usage.drop(path)
	}
}

// measureBlobs counts a user's blobs.
func (s *Store) measureBlobs(o spawner.Principal) {
	entries, _ := os.ReadDir(s.blobDir(o))
	for _, e := range entries {
		if e.Name()[0] != '.' {
			s.measureBlob(o, filepath.Join(s.blobDir(o), e.Name()))
		}
	}
}

// links returns how many names a file has; 0: it is not known.
func links(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Nlink)
}

// shareOf returns a file's size, of one that has several names what each of them bears.
func shareOf(info fs.FileInfo) int64 {
	return info.Size() / int64(max(links(info), 1))
}
