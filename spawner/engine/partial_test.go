package engine_test

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// TestPartialBlobsGoAtStart: what a killed service has left of an upload is gone when the next one begins.
func TestPartialBlobsGoAtStart(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		if err := s.put("whole"); err != nil {
			t.Fatal(err)
		}
		dirs, _ := filepath.Glob(filepath.Join(filepath.Dir(s.config.Dir), "blobs", "*"))
		if len(dirs) != 1 {
			t.Fatal(dirs)
		}
		left := filepath.Join(dirs[0], ".new-123")
		if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.restart()
		if kept := s.kept(); len(kept) != 1 || "sha256:"+kept[0] != digestOf("whole") {
			t.Errorf("kept: %v", kept)
		}
	})(t)
}

// TestPartialOutputsGo: what a killed service has left of a file that it fetched is not counted, and goes.
func TestPartialOutputsGo(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		job := s.submit(alice, simpleJob())
		s.reach(job.ID, spawner.Running)
		files := filepath.Join(s.config.Dir, string(job.ID), "files")
		left := filepath.Join(files, ".new-123")
		before := time.Now().Add(-time.Hour)
		if err := errors.Join(os.MkdirAll(files, 0o700), os.WriteFile(left, []byte("half"), 0o600), os.Chtimes(left, before, before)); err != nil {
			t.Fatal(err)
		}
		s.restart()
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is there still: %v", err)
		}
	})(t)
}

// TestBlobsOnAFullDisk: wherever the disk turns out to be full, the caller is told so, and nothing is left.
func TestBlobsOnAFullDisk(t *testing.T) {
	testenv.Need(t, testenv.Root)
	inBubble(func(t *testing.T, s *service) {
		blobs := filepath.Join(filepath.Dir(s.config.Dir), "blobs")
		if err := os.MkdirAll(blobs, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("slipway-test", blobs, "tmpfs", 0, "size=1m,nr_inodes=5,mode=0700"); err != nil {
			t.Fatalf("mount a small disk: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(blobs, syscall.MNT_DETACH) })
		s.kill()
		s.config.Room = func(string) (int64, error) { return 1 << 40, nil } // others fill it behind the look
		s.start()
		random := make([]byte, 2<<20)
		_, _ = rand.Read(random)
		refused := func(step string) {
			t.Helper()
			err := s.put(string(random))
			if !errs.Is(err, errs.NoSpace) || !strings.Contains(err.Error(), "disk is full") || !strings.Contains(err.Error(), "administrator") {
				t.Errorf("%s: %v", step, err)
			}
			if kept := s.kept(); len(kept) > 0 {
				t.Errorf("%s: left %v", step, kept)
			}
		}
		refused("while it is written")
		if err := os.RemoveAll(onlyOne(t, filepath.Join(blobs, "*"))); err != nil {
			t.Fatal(err)
		}
		fillUp(t, filepath.Join(blobs, "ballast"))
		refused("before a byte")
	})(t)
}

func onlyOne(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// fillUp fills a disk to its last byte.
func fillUp(t *testing.T, ballast string) {
	t.Helper()
	if err := os.Mkdir(ballast, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(ballast, ".owner"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, io.LimitReader(rand.Reader, 1<<30)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
