// Package jobfiles keeps the files of jobs on this host's disk: what users upload for their jobs (blobs), the input
// files of jobs that were submitted together (bundles), the jobs' logs, and the output files that come back. It counts
// what each user keeps, says when a job expires, and tells its owner so afterwards.
//
// Promises: a file appears whole or not at all, for it is written under a temporary name, synced and renamed; a blob is
// what its digest says; the disk is never filled to its last byte, and an upload never exceeds its user's quota; what
// nobody needs is removed after a while, and with it what a killed service left unfinished.
//
// The package decides neither who may reach a file nor which job needs it: callers have checked the one, and Config
// says the other. It must not import the engine, nor keep records.
package jobfiles

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"slipway/spawner"
)

// Config is what a Store needs. All fields without a stated default are required.
//
// The functions may wait for locks of whoever gives them. A caller that holds one of these calls none of the Store's
// methods but those of which it is said that any lock may be held.
type Config struct {
	// Dir holds a directory for each workload. Bundles and blobs lie beside it, on the same disk: jobs have them by
	// hard links.
	Dir    string
	Output int64 // bytes of a job's output files, in all, that are kept. Zero: 20 GiB
	// Room returns how many bytes of output a directory's disk may take. Nil: what is free of it, but for a rest.
	Room func(dir string) (int64, error)
	// HasRecord reports whether there is a workload of this ID.
	HasRecord func(id spawner.ID) bool
	// Needed reports whether a job, or a submission that is under way, has a bundle.
	Needed func(bundle spawner.ID) bool
	// Owners returns all jobs and all bundles of jobs, and whose they are.
	Owners  func() (jobs, bundles map[spawner.ID]spawner.Principal)
	Quota   func(o spawner.Principal) int64 // most bytes that a user may keep; 0: any number
	Refused func()                          // counts a refusal because of Quota
	Logger  *slog.Logger
}

// Store keeps the files of jobs. Its methods are safe for concurrent use.
type Store struct {
	cfg    Config
	log    *slog.Logger
	born   time.Time
	usage  *usage                       // has a lock of its own
	unused map[spawner.ID]time.Duration // bundles without a job, and since when; of ExpireBundles
}

// New makes a Store, and removes what uploads left that ended with an earlier run of the service.
func New(cfg Config) *Store {
	if cfg.Output == 0 {
		cfg.Output = 20 << 30
	}
	if cfg.Room == nil {
		cfg.Room = roomIn
	}
	s := &Store{cfg: cfg, log: cfg.Logger, born: time.Now(), usage: newUsage()}
	s.removePartialBlobs()
	return s
}

// Dir returns a workload's own directory. Any lock may be held.
func (s *Store) Dir(id spawner.ID) string { return filepath.Join(s.cfg.Dir, string(id)) }

func (s *Store) outputDir(id spawner.ID) string { return filepath.Join(s.Dir(id), "files") }

// beside returns a directory on the same disk as those of the workloads.
func (s *Store) beside(name string) string {
	return filepath.Join(filepath.Dir(filepath.Clean(s.cfg.Dir)), name)
}

// ClearRun removes what only a running workload needs. A job's inputs stay: it may be tried again.
func (s *Store) ClearRun(id spawner.ID) error { return s.clear(id, "link", "run") }

// ClearTry removes what a run had here that was seen gone, but for what the next one needs.
func (s *Store) ClearTry(id spawner.ID) error { return s.clear(id, "link", "run", "files", "log") }

func (s *Store) clear(id spawner.ID, names ...string) error {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(s.Dir(id), name)); err != nil {
			return fmt.Errorf("clear the directory of %s: %w", id, err)
		}
	}
	return nil
}

// Remove removes a workload's directory.
func (s *Store) Remove(id spawner.ID) error {
	if err := os.RemoveAll(s.Dir(id)); err != nil {
		return fmt.Errorf("remove the directory of %s: %w", id, err)
	}
	return nil
}

// ReapDirs removes the directories of workloads that have no record and are not in now, if they were in before: at the
// second look. It adds what it finds to now.
func (s *Store) ReapDirs(before, now map[spawner.ID]bool) {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return // made at the first start
	}
	for _, e := range entries {
		id := spawner.ID(e.Name())
		if s.cfg.HasRecord(id) || now[id] {
			continue
		}
		now[id] = true
		info, err := e.Info()
		if err == nil && before[id] && time.Since(info.ModTime()) > time.Minute {
			s.log.Warn("removing a directory without a record", "id", id)
			err = os.RemoveAll(s.Dir(id))
		}
		if err != nil {
			s.log.Warn("cannot reap a directory", "id", id, "err", err)
		}
	}
}
