package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"slipway/internal/errs"
)

// classify turns SQLite's error of a step into one of a kind, with what the administrator can do.
func classify(path, step string, err error) error {
	switch code := primary(err); {
	case code == sqlite3.SQLITE_FULL || errors.Is(err, syscall.ENOSPC) ||
		code == sqlite3.SQLITE_IOERR && noRoom(path, err),
		code == sqlite3.SQLITE_CANTOPEN && noRoom(path, err):
		return errs.New(errs.NoSpace, "%s: the disk of %s is full: %w", step, path, err).
			With("free space on the disk that holds " + path)
	case code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED:
		return errs.New(errs.Unavailable, "%s: another process has the store %s: %w", step, path, err).
			With("end the other slipway serve, or set data_dir to another directory")
	case code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB:
		return errs.New(errs.Internal, "%s: the store %s is damaged: %w", step, path, err).
			With("stop the service, keep a copy of the file, and restore it from a backup")
	case code == sqlite3.SQLITE_READONLY || code == sqlite3.SQLITE_CANTOPEN:
		return errs.New(errs.Internal, "%s: the store %s cannot be written: %w", step, path, err).
			With("look at the owner and mode of the file and its directory, and whether the disk is mounted read-only")
	default:
		return fmt.Errorf("%s: %w", step, err)
	}
}

// littleRoom is how much a disk has free that cannot take another page of the log and its index.
const littleRoom = 256 << 10

// noRoom reports whether an error of reading and writing is that of a full disk: SQLite tells that of its files beside
// the store, such as the index of its log, as an error of the disk. It has an error of its own only for the store's
// file.
func noRoom(path string, err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
		return true
	}
	var st syscall.Statfs_t
	return syscall.Statfs(filepath.Dir(path), &st) == nil && (int64(st.Bavail)*st.Bsize < littleRoom ||
		st.Files > 0 && st.Ffree == 0)
}

// primary returns the SQLite result code without its extension, 0 when err is not SQLite's.
func primary(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}
