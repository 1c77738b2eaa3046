package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
)

// SubmitGuard tells of a command that still submits though the service which began it was killed: it may put jobs in
// the queue after a service that was started again has looked there. It is safe for concurrent use.
type SubmitGuard struct {
	file    string // each command holds a shared lock of it for as long as it runs
	command string
	remedy  string
	quiet   atomic.Bool // no such one goes on, nor will: what is begun since is this service's own
}

// NewSubmitGuard returns the guard of a command, by a file of the service's own. The remedy is for a user whose start
// is refused because a command of before goes on.
func NewSubmitGuard(file, command, remedy string) *SubmitGuard {
	return &SubmitGuard{file: file, command: command, remedy: remedy}
}

// Hold returns a file for a command to hold open, once nothing of before goes on. The caller closes it when the command
// has ended.
func (g *SubmitGuard) Hold(ctx context.Context) (*os.File, error) {
	if err := g.Await(ctx); err != nil {
		return nil, err
	}
	return g.lock(syscall.LOCK_SH)
}

// How long, and how often, it is looked whether an orphan has ended.
const (
	orphanPatience = 5 * time.Second
	orphanLook     = 100 * time.Millisecond
)

// LateCommit is how long a batch system may take to commit what a command that was killed has sent.
const LateCommit = time.Second

// Await returns when no command of before goes on, and what it has sent is in the queue.
func (g *SubmitGuard) Await(ctx context.Context) error {
	for begun, waited := time.Now(), false; !g.quiet.Load(); waited = true {
		f, err := g.lock(syscall.LOCK_EX)
		switch {
		case err == nil:
			if waited && !clock.Sleep(ctx, LateCommit) {
				return errors.Join(ctx.Err(), f.Close())
			}
			g.quiet.Store(true)
			return f.Close()
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("look for submissions of before: %w", err)
		case time.Since(begun) > orphanPatience || !clock.Sleep(ctx, orphanLook):
			const words = "a %s still runs that was begun before the service was last started, and may yet submit this"
			return errs.New(errs.Unavailable, words, g.command).With(g.remedy)
		}
	}
	return nil
}

// lock locks the file, without waiting. Whoever has it open through a command that was given it has the lock too.
func (g *SubmitGuard) lock(how int) (*os.File, error) {
	f, err := os.OpenFile(g.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
