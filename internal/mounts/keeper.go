package mounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway/internal/backoff"
)

// KeeperConfig is what a Keeper needs.
type KeeperConfig struct {
	Source, Target string // on this host, and in workloads
	// Processes returns one process of each running workload that has Target: one that its backend has started.
	Processes func(context.Context) ([]int, error)
	Program   []string      // argv of what calls Renew, but for its last four arguments
	Deadline  time.Duration // for one renewal
	Every     time.Duration // it looks whether Source is still what it was; zero: 2 s
	Logger    *slog.Logger
}

// Keeper sees to it that what running workloads have at Target is what this host has at Source, also after that has
// been mounted anew.
type Keeper struct {
	cfg KeeperConfig

	mu     sync.Mutex
	failed map[int]failure // by process
}

// failure is what is remembered of a process for which it went wrong.
type failure struct {
	words string
	tries int
	again time.Time
	stuck *child // that can neither be ended nor waited for
}

// NewKeeper makes a Keeper.
func NewKeeper(cfg KeeperConfig) *Keeper {
	cfg.Every = cmp.Or(cfg.Every, 2*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{cfg: cfg, failed: map[int]failure{}}
}

// Run looks until ctx ends: at all workloads at first, for the service may have been away, and then whenever another
// file system is at Source. What could not be done is tried again.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.cfg.Every)
	defer tick.Stop()
	before, said := "", ""
	for {
		device, err := Device(k.cfg.Source)
		if err == nil && (device != before || k.owes()) {
			if err = k.Renew(ctx, device); err == nil {
				before = device
			}
		}
		words := ""
		if err != nil && ctx.Err() == nil {
			words = err.Error()
		}
		if words != "" && words != said {
			k.cfg.Logger.Warn(
				"running sessions may lack a data area: it is tried again", "directory", k.cfg.Source, "error", words,
			)
		}
		said = words
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// owes reports whether there are processes for which it went wrong.
func (k *Keeper) owes() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.failed) > 0
}

// Renew gives every workload what this host has, where it has something else. The error is that they are not known:
// where it goes wrong for one, that is logged and remembered, and holds up no other.
func (k *Keeper) Renew(ctx context.Context, device string) error {
	pids, err := k.cfg.Processes(ctx)
	if err != nil {
		return err
	}
	k.forget(pids)
	var work sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, pid := range pids {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-free }()
			k.see(ctx, pid, device)
		})
	}
	work.Wait()
	return ctx.Err()
}

// forget drops what is remembered of processes that are no workload's any more, but for children that are not gone.
func (k *Keeper) forget(pids []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.failed, func(pid int, f failure) bool {
		return !slices.Contains(pids, pid) && (f.stuck == nil || f.stuck.gone())
	})
}

// slowest bounds the time until what went wrong is tried again.
const slowest = time.Minute

// see looks at one process, unless it went wrong there a moment ago or a child is there still.
func (k *Keeper) see(ctx context.Context, pid int, device string) {
	k.mu.Lock()
	f := k.failed[pid]
	k.mu.Unlock()
	if f.stuck != nil && !f.stuck.gone() || time.Now().Before(f.again) {
		return
	}
	stale, err := Stale(pid, k.cfg.Target, device)
	f.stuck = nil
	if err == nil && stale != "" {
		f.stuck, err = k.renew(ctx, pid, stale)
	}
	if _, gone := os.Stat("/proc/" + strconv.Itoa(pid)); gone != nil || ctx.Err() != nil {
		err = nil
	}
	if err == nil && stale != "" && f.stuck == nil && ctx.Err() == nil {
		k.cfg.Logger.Info(
			"a running session or job has a data area again that was mounted anew", "directory", k.cfg.Source,
			"process", pid,
		)
	}
	k.remember(pid, f, err)
}

// remember notes how it went, and tells what is new of it.
func (k *Keeper) remember(pid int, f failure, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && f.stuck == nil {
		delete(k.failed, pid)
		return
	}
	if err != nil && err.Error() != f.words {
		f.words = err.Error()
		k.cfg.Logger.Warn(
			"a running session or job may lack a data area: it is tried again", "directory", k.cfg.Source, "process",
			pid, "error", err,
		)
	}
	f.tries++
	f.again = time.Now().Add(backoff.Delay(k.cfg.Every, slowest, f.tries, rand.Float64()))
	k.failed[pid] = f
}

// renew lets a child do it. That is given back where it can neither be ended nor waited for.
func (k *Keeper) renew(ctx context.Context, pid int, stale string) (*child, error) {
	c, err := begin(slices.Concat(k.cfg.Program, []string{strconv.Itoa(pid), k.cfg.Source, k.cfg.Target, stale}))
	if err != nil {
		return nil, err
	}
	said, heard, err := c.read(ctx, k.cfg.Deadline)
	if words := strings.TrimSpace(string(said)); err == nil && !heard {
		err = fmt.Errorf("mount %s anew for process %d: %s does not answer", k.cfg.Target, pid, k.cfg.Source)
	} else if err == nil && words != Renewed {
		err = errors.New(words)
	}
	if !c.end() {
		return c, err
	}
	return nil, err
}

// Renewed is what the program prints that has called Renew, when it is done.
const Renewed = "renewed"

// RenewCommand is the command of slipway that is RenewMount.
const RenewCommand = "renew-mount"

// RenewMount is that program, but for its name.
func RenewMount(w io.Writer, pid, source, target, stale string) error {
	id, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	if err := Renew(id, source, target, stale); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, Renewed)
	return err
}
