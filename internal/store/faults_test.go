package store

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

func TestFilesArePrivate(t *testing.T) {
	path := place(t)
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	s := opened(t, path)
	put(t, s, "x", "1", 1)
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v: want the store and its log", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %04o, want 0600", f, mode)
		}
	}
}

func TestDirectoryOfOthersIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), filepath.Join(dir, "store.db"), quiet())
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "chmod 700 "+dir) {
		t.Errorf("Open = %v, want a refusal with the command", err)
	}
}

func TestDirectoryIsMade(t *testing.T) {
	path := filepath.Join(filepath.Dir(place(t)), "deep", "er", "store.db")
	opened(t, path)
	info, err := os.Stat(filepath.Dir(path))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory %v, %v: want mode 0700", info, err)
	}
}

func TestOddPath(t *testing.T) {
	path := filepath.Join(filepath.Dir(place(t)), "a ?b#c%20", "st ore.db")
	put(t, opened(t, path), "x", "1", 1)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestSecondServiceIsRefused(t *testing.T) {
	path := place(t)
	opened(t, path)
	_, err := open(t.Context(), path, quiet(), time.Millisecond)
	if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second open = %v, want unavailable", err)
	}
}

func TestNewerStoreIsRefused(t *testing.T) {
	path := place(t)
	s := opened(t, path)
	if _, err := s.db.ExecContext(t.Context(), `INSERT INTO migrations VALUES (99, '2030-01-01T00:00:00Z')`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path, quiet())
	if !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("Open = %v, want a refusal that names the version", err)
	}
}

func TestDamagedStore(t *testing.T) {
	path := place(t)
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path, quiet())
	if !errs.Is(err, errs.Internal) || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("Open = %v, want the remedy", err)
	}
}

func TestDirectoryInPlaceOfTheFile(t *testing.T) {
	path := place(t)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, quiet()); err == nil {
		t.Error("a directory was opened as a store")
	}
}

// TestPageLimit meets SQLite's "full" without a real disk.
func TestPageLimit(t *testing.T) {
	s := opened(t, place(t))
	if _, err := s.db.ExecContext(t.Context(), `PRAGMA max_page_count = 8`); err != nil {
		t.Fatal(err)
	}
	err := s.Put(t.Context(), "x", "1", strings.Repeat("x", 1<<20))
	if !errs.Is(err, errs.NoSpace) {
		t.Errorf("Put = %v, want no space", err)
	}
}

func TestFullDisk(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	if err := syscall.Mount("slipway-test", dir, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s := opened(t, filepath.Join(dir, "store.db"))
	put(t, s, "x", "before", 1)
	err := s.Put(t.Context(), "x", "big", strings.Repeat("x", 1<<20))
	if !errs.Is(err, errs.NoSpace) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("Put = %v, want no space with the remedy", err)
	}
	if got := contents(t, s, "x"); len(got) != 1 || got["before"] != "1" {
		t.Errorf("after the failure the store has %v", got)
	}
	put(t, s, "x", "small", 2)
}

func TestSettings(t *testing.T) {
	s := opened(t, place(t))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "1", "foreign_keys": "1", "locking_mode": "exclusive"} {
		var got string
		if err := s.db.QueryRowContext(t.Context(), `PRAGMA `+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", pragma, got, err, want)
		}
	}
}

// TestOldStoreIsMigrated opens a file in which a program of version 0 left an empty table of migrations.
func TestOldStoreIsMigrated(t *testing.T) {
	path := place(t)
	db, err := sql.Open("sqlite", dsn(path, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE migrations (version INTEGER PRIMARY KEY, applied TEXT NOT NULL) STRICT`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, opened(t, path), "x", "1", 1)
}
