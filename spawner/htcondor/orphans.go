package htcondor

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
	"slipway/spawner/htcondor/commands"
)

// guardFile is what each condor_submit holds a shared lock of for as long as it runs.
const guardFile = ".submitting"

// guard tells of a condor_submit that goes on though the service which began it was killed: it may put jobs in the
// queue after a service that was started again has looked there. It is safe for concurrent use.
type guard struct {
	name  string
	quiet atomic.Bool // no such one goes on, nor will: what is begun since is this service's own
}

// hold returns a file for a condor_submit to hold, once nothing of before goes on. The caller closes it when the
// command has ended.
func (g *guard) hold(ctx context.Context) (*os.File, error) {
	if err := g.await(ctx); err != nil {
		return nil, err
	}
	return g.lock(syscall.LOCK_SH)
}

// How long, and how often, it is looked whether an orphan has ended.
const (
	orphanPatience = 5 * time.Second
	orphanLook     = 100 * time.Millisecond
)

// await returns when no condor_submit of before goes on, and what it has sent is in the queue.
func (g *guard) await(ctx context.Context) error {
	for begun, waited := time.Now(), false; !g.quiet.Load(); waited = true {
		f, err := g.lock(syscall.LOCK_EX)
		switch {
		case err == nil:
			if waited && !clock.Sleep(ctx, lateCommit) {
				return errors.Join(ctx.Err(), f.Close())
			}
			g.quiet.Store(true)
			return f.Close()
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("look for submissions of before: %w", err)
		case time.Since(begun) > orphanPatience || !clock.Sleep(ctx, orphanLook):
			return errs.New(errs.Unavailable, "a condor_submit still runs that was begun before the service was last started, and may yet submit this").With(commands.AskAdmin)
		}
	}
	return nil
}

// lock locks the file, without waiting. Whoever has it open through a command that was given it has the lock too.
func (g *guard) lock(how int) (*os.File, error) {
	f, err := os.OpenFile(g.name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
