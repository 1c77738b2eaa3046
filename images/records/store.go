// Package records knows whose the environments are: what each owner calls them, with whom they are shared, what sessions
// used of them, how long those without a name are kept, and the quotas that bound them.
//
// It promises that a name leads to one environment at most, and to the same one whoever asks; that nobody sees or names
// another owner's environments but those that are shared with them; and that a record is written whole or not at all. It
// must not know what an environment consists of: its bytes are the business of package images.
//
// The records are JSON files in the library's directory, and on purpose no rows of the service's database. What no record
// leads to is removed for good, so the records must be lost, copied and restored together with the images: with a
// database that is lost, or that comes back from an older backup, the next garbage collection would remove environments
// that their owners still count on. By its file's name a record protects its environment even when it cannot be read.
// What a database would add is there: one process has the directory, a file is renamed into its place, and an index in
// memory spares the reading.
package records

import (
	"log/slog"
	"sync"
	"time"

	"slipway/images/libdir"
)

// Config says where the records are, and by what rules they are kept.
type Config struct {
	Dir    libdir.Dir
	Logger *slog.Logger
	Now    func() time.Time
	Quotas func(owner string) []Quota // what bounds an owner's environments; nil: nothing does
	Keep   func(digest string)        // keeps an environment that was looked up for a run from being removed
}

// Store is the records of all owners.
type Store struct {
	dir    libdir.Dir
	log    *slog.Logger
	now    func() time.Time
	quotas func(owner string) []Quota
	keep   func(digest string)
	mu     sync.Mutex // over read-change-write of a record
	index  recordIndex
}

// NewStore returns the records in a library's directory.
func NewStore(cfg Config) *Store {
	return &Store{dir: cfg.Dir, log: cfg.Logger, now: cfg.Now, quotas: cfg.Quotas, keep: cfg.Keep}
}

// Lock keeps all records as they are until Unlock, such as while what none leads to is removed.
func (s *Store) Lock() { s.mu.Lock() }

// Unlock ends Lock.
func (s *Store) Unlock() { s.mu.Unlock() }
