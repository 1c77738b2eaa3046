package mounts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

func newTestLooker(t *testing.T) *Looker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := NewLooker([]string{self, "look"})
	t.Cleanup(l.Close)
	return l
}

func TestLookerSaysWhatTheKernelSays(t *testing.T) {
	dir := t.TempDir()
	l := newTestLooker(t)
	for path, want := range map[string]error{
		dir: nil, filepath.Join(dir, "no such\nthing \"here\""): syscall.ENOENT, "/proc/self/exe/below": syscall.ENOTDIR,
	} {
		if err := l.At(path); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
	}
}

// TestLookerBeginsAnew: who waits for a process that is killed hears so, and the next look has another.
func TestLookerBeginsAnew(t *testing.T) {
	l := newTestLooker(t)
	pipe := filepath.Join(t.TempDir(), "gone")
	var waiting sync.WaitGroup
	for range 3 {
		if err := l.At(pipe); !errors.Is(err, syscall.ENOENT) {
			t.Error(err)
		}
		l.mu.Lock()
		said := make(chan error, 1)
		l.waiting[-1] = said // of a look that does not come back
		process := l.process.process
		l.mu.Unlock()
		waiting.Go(func() {
			if err := <-said; err == nil {
				t.Error("a look that was cut off says that all is well")
			}
		})
		_ = process.Kill()
		waiting.Wait()
	}
}

func TestLookerEndsWithSilentLook(t *testing.T) {
	l := NewLooker([]string{"sleep", "1000"}) // it takes what it is asked, and never answers
	done := make(chan error, 1)
	go func() { done <- l.At("/") }()
	await(t, "it is asked", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.waiting) == 1 })
	l.Close()
	if err := <-done; err == nil {
		t.Error("it says that all is well")
	}
}

// lookHere is the program that looks.
func lookHere() error { return Look(context.Background(), os.Stdin, os.Stdout) }
