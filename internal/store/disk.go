package store

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// disk knows how much of what was written is safe on the disk.
type disk struct {
	flush   func() error
	written atomic.Int64 // writes that have returned

	mu     sync.Mutex // one flush at a time; guards the field below
	synced int64      // of written
}

// wrote counts a write that is complete.
func (d *disk) wrote() { d.written.Add(1) }

// sync returns when all writes counted before it are safe. Who waits while another flushes is served together with all
// others who wait: by the next flush.
func (d *disk) sync() error {
	want := d.written.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.synced >= want {
		return nil
	}
	now := d.written.Load()
	if err := d.flush(); err != nil {
		return err
	}
	d.synced = now
	return nil
}

// flusher returns a function that brings the write-ahead log of the store at path to the disk. SQLite puts a commit
// there, whole, before it returns; what it has moved on to the store's file it has flushed itself (source:
// sqlite.org/wal.html, "Performance Considerations"). The log is a file of its own, so that opening it here takes none
// of SQLite's locks away.
func flusher(path string) func() error {
	var log *os.File
	return func() error {
		if log != nil {
			return log.Sync()
		}
		f, err := os.Open(path + "-wal")
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), syncDir(filepath.Dir(path))); err != nil {
			return errors.Join(err, f.Close())
		}
		log = f
		return nil
	}
}

// syncDir makes the names in a directory safe.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
