package reserve

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway/internal/errs"
	"slipway/internal/store"
	"slipway/internal/testenv"
)

// small mounts a disk of 32 MiB.
func small(t *testing.T) string {
	t.Helper()
	testenv.Need(t, testenv.Root)
	dir := t.TempDir()
	if err := syscall.Mount("slipway-test", dir, "tmpfs", 0, "size=32m,mode=0700"); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fillUp fills a disk to its last byte.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "ballast"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, rand.Reader); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// TestReserve: it stands while there is room, is given back when there is none, and comes again.
func TestReserve(t *testing.T) {
	dir := small(t)
	r := New(dir, slog.New(slog.DiscardHandler))
	stands := func() bool {
		info, err := os.Stat(filepath.Join(dir, "reserve"))
		return err == nil && info.Size() == 2<<20 && info.Sys().(*syscall.Stat_t).Blocks*512 >= 2<<20
	}
	r.Look()
	if err := r.Check(t.Context()); err != nil || !stands() {
		t.Fatalf("%v, it stands: %v", err, stands())
	}
	fillUp(t, dir)
	if err := r.Check(t.Context()); !errs.Is(err, errs.NoSpace) || !strings.Contains(err.Error(), "disk full: 0 B free in "+dir) {
		t.Errorf("on a full disk: %v", err)
	}
	r.Look()
	if stands() {
		t.Error("the reserve was not given back")
	}
	if err := r.Check(t.Context()); !errs.Is(err, errs.NoSpace) || !strings.Contains(err.Error(), "2 MiB free") {
		t.Errorf("with the reserve in use: %v", err)
	}
	r.Look()
	if err := os.WriteFile(filepath.Join(dir, "records"), make([]byte, 1<<20), 0o600); err != nil || stands() {
		t.Errorf("the room that was given back is not there: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	r.Look()
	if err := r.Check(t.Context()); err != nil || !stands() {
		t.Errorf("with room again: %v, it stands: %v", err, stands())
	}
}

// TestRecordsOnAFullDisk: with the reserve the store opens on a disk that is full to its last byte, and keeps what is
// written.
func TestRecordsOnAFullDisk(t *testing.T) {
	dir := small(t)
	log := slog.New(slog.DiscardHandler)
	r := New(dir, log)
	r.Look()
	fillUp(t, dir)
	path := filepath.Join(dir, "records", "slipway.db")
	_, err := store.Open(t.Context(), path, log)
	if err = r.Explain(err); !errs.Is(err, errs.NoSpace) || !strings.Contains(err.Error(), "disk full: 0 B free in "+dir) {
		t.Errorf("without the reserve: %v", err)
	}
	r.Look()
	s, err := store.Open(t.Context(), path, log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Put(t.Context(), "x", "1", 1); err != nil {
		t.Error(err)
	}
}

// TestRecordsUseTheReserve: a record that finds the disk full is kept all the same.
func TestRecordsUseTheReserve(t *testing.T) {
	dir := small(t)
	log := slog.New(slog.DiscardHandler)
	r := New(dir, log)
	r.Look()
	s, err := store.Open(t.Context(), filepath.Join(dir, "records", "slipway.db"), log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.OnFull(r.Release)
	fillUp(t, dir)
	for n := range 20 {
		if err := s.Put(t.Context(), "x", string(rune('a'+n)), strings.Repeat("x", 50_000)); err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
	}
}
