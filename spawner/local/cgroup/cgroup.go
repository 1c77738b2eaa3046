// Package cgroup limits groups of processes on this host, counts what they use and ends them, in both versions of the
// kernel's interface.
//
// Promises: when Kill has returned without an error, no process of the group is left, however fast it forks. What is used
// of the kernel's interface is a handful of small files, written out here once for both versions, so that it can be
// tested on any directory. The package must not know what runs in a group.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Root is where the kernel's control groups are mounted on every host.
const Root = "/sys/fs/cgroup"

// Shims is the group, without limits, of all shims of a service. It takes them out of the service's own group, whose
// members the init system kills with the service, and keeps them out of reach of their jobs' memory limits.
const Shims = "shims"

// Tree is the part of the host's control groups that belongs to one service, in either version of the kernel's
// interface.
type Tree struct {
	root    string
	Parent  string
	unified bool // version 2: one hierarchy; otherwise one directory for each controller
}

// New returns the tree of a service below a group, of the control groups that are mounted at root.
func New(root, parent string) Tree {
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	return Tree{root: root, Parent: parent, unified: err == nil}
}

// controllers are those that limit a job.
func (t Tree) controllers() []string {
	if t.unified {
		return []string{"cpu", "memory", "pids"}
	}
	return []string{"cpu", "cpuacct", "memory", "pids"}
}

// Missing names the controllers that the host does not have.
func (t Tree) Missing() []string {
	have := func(c string) bool { _, err := os.Stat(filepath.Join(t.root, c)); return err == nil }
	if t.unified {
		data, _ := os.ReadFile(filepath.Join(t.root, "cgroup.controllers"))
		have = func(c string) bool { return slices.Contains(strings.Fields(string(data)), c) }
	}
	return slices.DeleteFunc(t.controllers(), have)
}

// Group returns a group of the tree, made or not.
func (t Tree) Group(name string) Group { return Group{Tree: t, name: name} }

// Names returns the groups that exist.
func (t Tree) Names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(t.Group(Shims).dir("pids")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Group is one control group.
type Group struct {
	Tree
	name string
}

func (g Group) dir(controller string) string {
	if g.unified {
		return filepath.Join(g.root, g.Parent, g.name)
	}
	return filepath.Join(g.root, controller, g.Parent, g.name)
}

// dirs are the group's directories, one for each hierarchy. The init system's own hierarchy of version 1 counts: by it,
// the init system knows what belongs to a service.
func (g Group) dirs() []string {
	if g.unified {
		return []string{g.dir("")}
	}
	var dirs []string
	for _, c := range append(g.controllers(), "systemd") {
		if _, err := os.Stat(filepath.Join(g.root, c)); err == nil {
			dirs = append(dirs, g.dir(c))
		}
	}
	return dirs
}

// Exists reports whether the group is there.
func (g Group) Exists() bool {
	return slices.ContainsFunc(g.dirs(), func(d string) bool { _, err := os.Stat(d); return err == nil })
}

// Create makes the group; what exists is left.
func (g Group) Create() error {
	if missing := g.Missing(); len(missing) > 0 {
		return errs.New(
			errs.Missing, "this host has no control of %s for groups of processes", strings.Join(missing, ", "),
		).With("start the kernel with " + strings.Join(missing, ", ") + " control groups enabled")
	}
	for _, d := range g.dirs() {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if g.unified {
		return g.delegate()
	}
	return nil
}

// delegate hands the controllers down to the group: version 2 wants that of each group above.
func (g Group) delegate() error {
	on := "+" + strings.Join(g.controllers(), " +")
	at := g.root
	for _, part := range append([]string{"."}, strings.Split(g.Parent, "/")...) {
		at = filepath.Join(at, part)
		if err := put(filepath.Join(at, "cgroup.subtree_control"), on); err != nil {
			return err
		}
	}
	return nil
}

// Limit sets a job's limits. Swap is no way around the memory limit.
func (g Group) Limit(r spawner.Resources) error {
	for _, s := range g.settings(r) {
		err := put(filepath.Join(g.dir(s.controller), s.file), s.value)
		if s.optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("limit %s to %s: %w", s.file, s.value, err)
		}
	}
	return nil
}

// setting is one value for one of the kernel's files.
type setting struct {
	controller, file, value string
	optional                bool // kernels without swap accounting lack the file
}

// cpuPeriod is the period of the CPU limit, in microseconds: the kernel's default.
const cpuPeriod = 100_000

// settings returns the kernel's files that hold the limits, in the order in which they can be written. Zero is no
// limit.
func (g Group) settings(r spawner.Resources) []setting {
	memory, pids, quota := strconv.FormatInt(r.Memory, 10), strconv.FormatInt(r.Pids, 10), int64(math.Ceil(r.CPUs*cpuPeriod))
	var s []setting
	if r.Memory > 0 && g.unified {
		s = append(s, setting{"memory", "memory.max", memory, false}, setting{"memory", "memory.swap.max", "0", true})
	}
	if r.Memory > 0 && !g.unified {
		s = append(s, setting{"memory", "memory.limit_in_bytes", memory, false},
			setting{"memory", "memory.memsw.limit_in_bytes", memory, true})
	}
	if r.Pids > 0 {
		s = append(s, setting{"pids", "pids.max", pids, false})
	}
	if quota = max(quota, 1000); r.CPUs > 0 && g.unified {
		s = append(s, setting{"cpu", "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod), false})
	}
	if r.CPUs > 0 && !g.unified {
		s = append(s, setting{"cpu", "cpu.cfs_period_us", strconv.Itoa(cpuPeriod), false},
			setting{"cpu", "cpu.cfs_quota_us", strconv.FormatInt(quota, 10), false})
	}
	return s
}

// Join takes the calling process into the group.
func (g Group) Join() error {
	for _, d := range g.dirs() {
		if err := put(filepath.Join(d, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
	}
	return nil
}

// Pids returns the group's processes.
func (g Group) Pids() ([]int, error) {
	data, err := os.ReadFile(filepath.Join(g.dir("pids"), "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePids(data)
}

// Kill kills every process of the group and returns when none is left. No process can be started in the group from then
// on, so one that forks without end does not get away.
func (g Group) Kill(ctx context.Context) error {
	if err := put(filepath.Join(g.dir("pids"), "pids.max"), "0"); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for pause := firstPause; ; pause = min(pause+pause/2, longestPause) {
		pids, err := g.Pids()
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill %d: %w", pid, err)
			}
		}
		if !clock.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// Remove removes the group, in which no process may be left. The kernel takes a moment to see a killed one out.
func (g Group) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, d := range g.dirs() {
		for pause := firstPause; ; pause = min(pause+pause/2, longestPause) {
			err := os.Remove(d)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !clock.Sleep(ctx, pause) {
				return fmt.Errorf("remove the control group: %w", err)
			}
		}
	}
	return nil
}

// The pauses between two looks at processes that end. They grow, for on a host whose processors are all in use who looks
// every few milliseconds takes more of them than what is looked at.
const (
	firstPause   = time.Millisecond
	longestPause = 32 * time.Millisecond
)

// put writes a value to a file of the kernel's; it never makes one.
func put(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
