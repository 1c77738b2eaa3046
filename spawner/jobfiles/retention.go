package jobfiles

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"slipway/spawner"
)

// Expires returns when a job is removed with its files: so long after its own end, or after the last end in its scan,
// for a scan is removed as a whole. Zero: it has not ended, or another of its scan has not, or keep is zero, which
// means never.
func Expires(w *spawner.Workload, scanActive bool, scanEnded time.Time, keep time.Duration) time.Time {
	if w.Kind.Session() || w.Phase != spawner.Stopped || w.Outcome == nil || scanActive || keep == 0 {
		return time.Time{}
	}
	last := w.Outcome.At
	if scanEnded.After(last) {
		last = scanEnded
	}
	return last.Add(keep)
}

// removePartialBlobs removes what uploads left that a kill of the service has ended: they begin again. Nobody else
// writes there, and no upload of this service has begun yet.
func (s *Store) removePartialBlobs() {
	left, _ := filepath.Glob(filepath.Join(s.blobDirs(), "*", partial+"*")) // the pattern is sound
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			s.log.Warn("cannot remove what a broken upload has left", "path", path, "err", err)
		}
	}
}

// bundlePatience is for how long a bundle is seen that nobody has before it is removed: if records were lost, there is
// time to see it.
const bundlePatience = 5 * time.Minute

// ExpireBundles removes bundles that have been without a job for a while, when the service has been up so long, and
// counts blobs again that lost jobs. One goroutine at a time may call it.
func (s *Store) ExpireBundles(up time.Duration) {
	before := s.unused
	s.unused = map[spawner.ID]time.Duration{}
	entries, _ := os.ReadDir(s.bundles()) // made with the first
	for _, e := range entries {
		b := spawner.ID(e.Name())
		if s.cfg.Needed(b) {
			continue
		}
		since, seen := before[b]
		if !seen {
			since = up
		}
		if s.unused[b] = since; up-since >= bundlePatience {
			s.log.Warn("removing input files that no job has", "bundle", b)
			s.ClearBundle(b)
		}
	}
	for o := range s.usage.remeasured() {
		s.measureBlobs(o)
	}
}

// ExpireBlobs removes blobs that no job has and nobody has asked for lately, and counts the others. Whoever submits
// with one meanwhile has it, or is told to put it again. A time that has not come yet is of a clock that was set back:
// it counts from now.
func (s *Store) ExpireBlobs(now time.Time) {
	dirs, _ := os.ReadDir(s.blobDirs()) // made with the first
	for _, d := range dirs {
		dir := filepath.Join(s.blobDirs(), d.Name())
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			s.expireBlob(filepath.Join(dir, f.Name()), f, now)
		}
	}
	for _, o := range s.blobOwners() {
		s.measureBlobs(o)
	}
}

func (s *Store) expireBlob(path string, f fs.DirEntry, now time.Time) {
	info, err := f.Info()
	if err != nil || links(info) != 1 || f.Name() == blobOwnerFile {
		return
	}
	switch age := now.Sub(info.ModTime()); {
	case age < -blobLife:
		err = os.Chtimes(path, now, now)
	case age > blobLife:
		err = os.Remove(path)
		s.usage.drop(path)
	}
	if err != nil {
		s.log.Warn("cannot clear away a file that no job has", "path", path, "err", err)
	}
}
