package kernelproxy

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/internal/backoff"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

const (
	lookEvery  = time.Second            // at a kernel that is not up yet
	endingTime = time.Minute            // for a kernel before to be gone
	firstWait  = 200 * time.Millisecond // before what has failed is tried again; then ever longer
	mostWait   = 5 * time.Second
)

// obtain finds the kernel of an earlier process, or starts one, and waits until it is there.
func (b *bridge) obtain(ctx context.Context) error {
	_, no := os.Stat(b.mark)
	anew := no == nil
	_ = os.Remove(b.mark)
	now, err := b.found(ctx)
	if err != nil && !errs.Is(err, errs.NotFound) {
		return err
	}
	if err != nil {
		now, err = b.begin(ctx)
	} else if anew && now.State != hubapi.KernelStarting {
		now, err = b.anew(ctx)
	}
	for err == nil && now.State == hubapi.KernelStarting {
		b.progress(now.Progress)
		if !clock.Sleep(ctx, lookEvery) {
			return ctx.Err()
		}
		now, err = insist(ctx, b.service.look)
	}
	switch {
	case errs.Is(err, errs.NotFound):
		return errs.New(errs.NotFound, "the kernel was shut down before it was there")
	case err == nil && over(now):
		return errors.New(now.Reason)
	}
	return err
}

// found returns the kernel that an earlier process has left, alive; NotFound: there is none.
func (b *bridge) found(ctx context.Context) (hubapi.Kernel, error) {
	now, err := insist(ctx, b.service.look)
	if err != nil || !over(now) {
		return now, err
	}
	if _, err := insist(ctx, func(ctx context.Context) (hubapi.Kernel, error) { return hubapi.Kernel{}, b.service.remove(ctx) }); err != nil {
		return now, err
	}
	return now, errs.New(errs.NotFound, "the kernel before has ended")
}

// begin starts the kernel, and says meanwhile how it goes on. One that has just been removed may still be on its way
// out.
func (b *bridge) begin(ctx context.Context) (hubapi.Kernel, error) {
	watching, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() { b.watch(watching) })
	for began := time.Now(); ; {
		now, err := insist(
			ctx,
			func(ctx context.Context) (hubapi.Kernel, error) { return b.service.start(ctx, b.cfg.Spec, b.cfg.Dir) },
		)
		if !errs.Is(err, errs.Conflict) || time.Since(began) > endingTime {
			return now, err
		}
		if !clock.Sleep(ctx, lookEvery) {
			return now, ctx.Err()
		}
	}
}

func (b *bridge) watch(ctx context.Context) {
	for clock.Sleep(ctx, lookEvery) {
		if now, err := b.service.look(ctx); err == nil && now.State == hubapi.KernelStarting {
			b.progress(now.Progress)
		}
	}
}

// anew has the kernel of an earlier process begin anew.
func (b *bridge) anew(ctx context.Context) (hubapi.Kernel, error) {
	now, err := insist(ctx, b.service.restart)
	if errs.Is(err, errs.Conflict) { // it has ended meanwhile, or is not up yet
		return b.service.look(ctx)
	}
	return now, err
}

func over(k hubapi.Kernel) bool { return k.State == hubapi.KernelDead }

// passes reports whether an error says nothing but that the service is not reached just now, or slow.
func passes(err error) bool {
	return hubapi.NotReached(err) || errors.Is(err, context.DeadlineExceeded)
}

// insist repeats what fails because the service is not reached.
func insist(ctx context.Context, do func(context.Context) (hubapi.Kernel, error)) (hubapi.Kernel, error) {
	for failed := newBackoff(); ; {
		v, err := do(ctx)
		if err == nil || !passes(err) || !failed.Wait(ctx) {
			return v, err
		}
	}
}

func newBackoff() *backoff.Backoff { return &backoff.Backoff{First: firstWait, Most: mostWait} }
