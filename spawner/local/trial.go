package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// trialName names the control directory and the control group of the one trial at a time. It is no workload's ID.
const trialName = "trial"

// Trial is a command that is tried in an environment, in a container that has nothing but its image: no network, no
// GPU, an empty home, no agent.
type Trial struct {
	Image     string          // path of the SIF
	Account   spawner.Account // as whom; its home is left alone
	Argv      []string
	Resources spawner.Resources
	Limit     time.Duration // by which it has ended
}

// Try runs a command in an environment, with the least priority, and returns what it printed. It comes back when nothing
// of it is left, also when ctx ends. What a killed service has left of another trial is ended first.
func (b *Backend) Try(ctx context.Context, t Trial) (output []byte, err error) {
	b.trying.Lock()
	defer b.trying.Unlock()
	d := dir(filepath.Join(b.cfg.Dir, trialName))
	p, err := b.trialPlan(d, t)
	if err != nil {
		return nil, fmt.Errorf("try %s: %w", filepath.Base(t.Image), err)
	}
	if err := b.endTrial(ctx, d); err != nil {
		return nil, fmt.Errorf("end an earlier trial: %w", err)
	}
	output, err = b.try(ctx, d, p)
	if err := errors.Join(err, b.endTrial(ctx, d)); err != nil {
		return nil, fmt.Errorf("try %s: %w", filepath.Base(t.Image), err)
	}
	return output, nil
}

// trialPlan decides what the shim is to run.
func (b *Backend) trialPlan(d dir, t Trial) (plan, error) {
	program, err := b.program()
	if err != nil {
		return plan{}, err
	}
	t.Account.HomeDir = d.path(trialHome)
	p := plan{
		ID: trialName, Apptainer: program, Account: t.Account, Image: t.Image, Command: t.Argv,
		Scratch:   d.path(scratchDir),
		Resources: t.Resources, TimeLimit: t.Limit, Grace: b.cfg.Grace, Cgroups: b.groups.Parent,
	}
	if len(t.Argv) == 0 || t.Limit <= 0 {
		return plan{}, errs.New(errs.Invalid, "a trial needs a command and a time limit")
	}
	if err := p.check(); err != nil {
		return plan{}, err
	}
	return p, p.needs()
}

// trialEvery is how often it is looked whether a trial has ended.
const trialEvery = 200 * time.Millisecond

func (b *Backend) try(ctx context.Context, d dir, p plan) ([]byte, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	lock, free, err := d.lock()
	if err != nil || !free {
		return nil, errors.Join(err, errs.New(errs.Unavailable, "another trial runs"))
	}
	defer lock.Close()
	if err := d.prepareTrial(p); err != nil {
		return nil, err
	}
	if err := b.launch(ctx, d, trialName, lock, nil); err != nil {
		return nil, err
	}
	ended, err := d.awaitFreeEvery(ctx, p.TimeLimit+p.Grace+shimGrace, pauses{trialEvery, trialEvery})
	if err != nil {
		return nil, err
	}
	if !ended {
		return nil, errs.New(errs.Unavailable, "it does not end")
	}
	return d.outcome()
}

// prepareTrial makes the directory ready for the shim. The plan comes last.
func (d dir) prepareTrial(p plan) error {
	for _, name := range []string{p.Scratch, p.Account.HomeDir} {
		if err := owned(name, p.Account); err != nil {
			return err
		}
	}
	return d.write(launchFile, p)
}

// outcome returns what a trial printed, or why it has not come to its end. That its command failed is for the reader of
// its words.
func (d dir) outcome() ([]byte, error) {
	e, err := d.exit()
	if errors.Is(err, fs.ErrNotExist) {
		e, err = exit{Code: 1, Lost: true}, nil
	}
	if err != nil {
		return nil, err
	}
	if o := e.observation(); o.Reason != "" {
		return nil, errs.New(errs.Unavailable, "%s", o.Reason)
	}
	return os.ReadFile(d.path(outputFile))
}

// endTrial ends a trial, if one runs, and removes its directory, also when ctx has ended.
func (b *Backend) endTrial(ctx context.Context, d dir) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := b.kill(ctx, d, trialName); err != nil {
		return err
	}
	return os.RemoveAll(string(d))
}
