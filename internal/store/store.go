// Package store keeps the service's records: JSON values under a key in a bucket, in one SQLite file.
//
// Promises: a write that returned without error survives a crash of the service at once, and one of the host once a
// Sync that began after it has returned; writes are kept or lost in their order; a Batch happens wholly or not at all;
// the file is its owner's alone. One process has the store at a time: a second Open waits a few seconds and is refused,
// because two services over one ledger would give the same slice away twice.
//
// Methods are safe for concurrent use; they take turns on one connection. The package knows nothing of what the records
// mean, and it must not be given secrets: they have a type that is stored as a mask.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"slipway/internal/errs"
)

// busyWait is how long Open waits for another process to let go of the store: longer than a restart's hand-over takes.
const busyWait = 5 * time.Second

// Store is an open store.
type Store struct {
	records
	db   *sql.DB
	disk disk
	full func() bool // makes room; nil: nobody does
}

// OnFull has room made by relieve when the disk is full, which reports whether it has made any: what was to be saved
// then is saved all the same. It is called before the store is used by others.
func (s *Store) OnFull(relieve func() bool) { s.full = relieve }

// relieved reports whether what has failed with err is worth another try, because room was made.
func (s *Store) relieved(err error) bool {
	return errs.Is(err, errs.NoSpace) && s.full != nil && s.full()
}

// Put saves value as JSON under key, in place of what was there.
func (s *Store) Put(ctx context.Context, bucket, key string, value any) error {
	err := s.records.Put(ctx, bucket, key, value)
	if s.relieved(err) {
		err = s.records.Put(ctx, bucket, key, value)
	}
	return err
}

// Delete removes key. Removing what is not there is success.
func (s *Store) Delete(ctx context.Context, bucket, key string) error {
	err := s.records.Delete(ctx, bucket, key)
	if s.relieved(err) {
		err = s.records.Delete(ctx, bucket, key)
	}
	return err
}

// Open opens the store in the file at path, and makes it when it is not there. Its directory must be the caller's
// alone.
func Open(ctx context.Context, path string, logger *slog.Logger) (*Store, error) {
	return open(ctx, path, logger, busyWait)
}

func open(ctx context.Context, path string, logger *slog.Logger, wait time.Duration) (*Store, error) {
	if err := prepare(path); errors.Is(err, syscall.ENOSPC) {
		return nil, classify(path, "open the store", err)
	} else if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path, wait))
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db, path, logger); err != nil {
		_ = db.Close()
		return nil, err
	}
	prepared, err := prepareStatements(ctx, db)
	if err != nil {
		_ = db.Close()
		return nil, classify(path, "open the store", err)
	}
	s := &Store{db: db, disk: disk{flush: flusher(path)}}
	s.records = records{prepared, alone, s.disk.wrote, path}
	return s, nil
}

// Sync makes all that was written before it safe from a crash of the host. Any number may wait for it at once: one
// flush of the disk serves all who came while another was under way.
func (s *Store) Sync(context.Context) error {
	if err := s.disk.sync(); err != nil {
		return classify(s.path, "bring the records to the disk", err)
	}
	return nil
}

// Close brings everything to the disk and closes the store.
func (s *Store) Close() error {
	if err := errors.Join(s.disk.sync(), s.db.Close()); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// Tx is the store within a Batch.
type Tx struct{ records }

// Batch runs fn and keeps all that it wrote, or nothing of it when fn fails. Inside fn use tx alone: the Store waits
// for the Batch to end. One that finds the disk full fails, and has room made for the next.
func (s *Store) Batch(ctx context.Context, fn func(tx *Tx) error) error {
	err := s.batch(ctx, fn)
	s.relieved(err)
	return err
}

func (s *Store) batch(ctx context.Context, fn func(tx *Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return classify(s.path, "begin a batch", err)
	}
	defer func() { _ = tx.Rollback() }() // says ErrTxDone after the commit
	if err := fn(&Tx{records{s.statements, tx.StmtContext, func() {}, s.path}}); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return classify(s.path, "commit a batch", err)
	}
	s.disk.wrote()
	return nil
}

// PutAll saves each value as JSON under its key, all or none.
func (s *Store) PutAll(ctx context.Context, bucket string, values map[string]any) error {
	return s.Batch(ctx, func(tx *Tx) error {
		for key, value := range values {
			if err := tx.Put(ctx, bucket, key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepare makes the directory and the file, so that SQLite, which gives its side files the file's mode, never makes a
// readable one.
func prepare(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the store's directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the store's directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return errs.New(errs.Conflict, "the store's directory %s has mode %04o: others can reach it", dir, mode).
			With("run: chmod 700 " + dir)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(0o600); err != nil {
		return fmt.Errorf("make the store private: %w", err)
	}
	return nil
}
