package mounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// KeeperConfig is what a Keeper needs.
type KeeperConfig struct {
	Source, Target string // on this host, and in workloads
	// Processes gives at least one process of each running workload that has Target.
	Processes func(context.Context) ([]int, error)
	Program   []string      // argv of what calls Renew, but for its last three arguments
	Deadline  time.Duration // for one renewal
	Every     time.Duration // it looks whether Source is still what it was; zero: 2 s
	Logger    *slog.Logger
}

// Keeper sees to it that what running workloads have at Target is what this host has at Source, also after that has been mounted anew.
type Keeper struct {
	cfg KeeperConfig
}

// NewKeeper makes a Keeper.
func NewKeeper(cfg KeeperConfig) *Keeper {
	cfg.Every = cmp.Or(cfg.Every, 2*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{cfg}
}

// Run looks until ctx ends: at all workloads at first, for the service may have been away, and then whenever another file system is at
// Source. What could not be done is tried again.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.cfg.Every)
	defer tick.Stop()
	before := ""
	for {
		device, err := Device(k.cfg.Source)
		if err == nil && device != before {
			if err = k.Renew(ctx, device); err == nil {
				before = device
			}
		}
		if err != nil && ctx.Err() == nil {
			k.cfg.Logger.Warn("running sessions may lack a data area: it is tried again", "directory", k.cfg.Source, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Renew gives every workload what this host has, where it has something else.
func (k *Keeper) Renew(ctx context.Context, device string) error {
	pids, err := k.cfg.Processes(ctx)
	if err != nil {
		return err
	}
	var all []error
	for _, pid := range pids {
		stale, err := Stale(pid, k.cfg.Target, device)
		if err == nil && stale {
			err = k.renew(ctx, pid)
		}
		if err == nil && stale {
			k.cfg.Logger.Info("a running session or job has a data area again that was mounted anew", "directory", k.cfg.Source, "process", pid)
		}
		if _, gone := os.Stat("/proc/" + strconv.Itoa(pid)); gone == nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func (k *Keeper) renew(ctx context.Context, pid int) error {
	c, err := begin(slices.Concat(k.cfg.Program, []string{strconv.Itoa(pid), k.cfg.Source, k.cfg.Target}))
	if err != nil {
		return err
	}
	defer c.end()
	said, heard, err := c.read(ctx, k.cfg.Deadline)
	switch {
	case err != nil:
		return err
	case !heard:
		return fmt.Errorf("mount %s anew for process %d: %s does not answer", k.cfg.Target, pid, k.cfg.Source)
	case strings.TrimSpace(string(said)) != Renewed:
		return errors.New(strings.TrimSpace(string(said)))
	}
	return nil
}

// Renewed is what the program prints that has called Renew, when it is done.
const Renewed = "renewed"

// RenewMount is that program, but for its name.
func RenewMount(w io.Writer, pid, source, target string) error {
	id, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	if err := Renew(id, source, target); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, Renewed)
	return err
}
