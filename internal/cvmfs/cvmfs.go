//go:build linux

// Package cvmfs knows this host's directory with CVMFS: whether it and its repositories answer, whether what is mounted
// in it later reaches running workloads, and it keeps what they see of it whole when autofs is started anew.
//
// A file system that does not answer never holds up its caller: a program of its own looks (package mounts). The package
// mounts nothing of CVMFS itself, and must not know what a session or a job is.
package cvmfs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/metrics"
	"slipway/internal/mounts"
)

// Inside is where workloads find CVMFS, wherever this host has it.
const Inside = "/cvmfs"

// Directory is what of CVMFS workloads of this host see. The zero one is nothing.
type Directory struct {
	path    string
	program string        // slipway, which looks and mounts in processes of their own
	probe   time.Duration // how long a look may take
	prober  *mounts.Prober
	log     *slog.Logger
}

// probeDeadline is how long a repository may take to answer: one that is fetched for the first time takes seconds.
const probeDeadline = 5 * time.Second

// Open looks at what is configured, and at files below it besides, with locks in a directory: those who share it look
// in turn.
func Open(c config.CVMFS, locks string, log *slog.Logger, files ...string) (Directory, error) {
	if c.Path == "" {
		return Directory{}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return Directory{}, fmt.Errorf("find this program: %w", err)
	}
	names := append([]string{mounts.Itself}, c.Repositories...)
	d := Directory{path: c.Path, program: self, probe: probeDeadline, log: log}
	d.prober = mounts.NewProber(mounts.ProberConfig{
		Dir: c.Path, Names: append(names, files...), Deadline: d.probe, Program: []string{self, mounts.ProbeCommand},
		Locks: locks, Logger: log,
	})
	return d, nil
}

// Path is where this host has it; empty: nowhere.
func (d Directory) Path() string { return d.path }

// Check looks at the directory itself: whether it answers, and whether mounts in it reach workloads. Patient, it takes one
// that does not answer for a matter of the hour.
func (d Directory) Check(ctx context.Context, patient bool) error {
	r := d.prober.Ask(ctx, mounts.Itself)
	if r.Silent && patient {
		return nil // it says so in the log
	}
	if err := d.unusable(r); err != nil {
		return err
	}
	return mounts.CheckShared(d.path)
}

// unusable is the error of a directory that can be used by nobody.
func (d Directory) unusable(r mounts.Result) error {
	if r.Trouble == "" {
		return nil
	}
	return errs.New(errs.Unavailable, "the directory with CVMFS on this host (%s) %s", d.path, r.Trouble).
		With("the administrator looks at autofs and the CVMFS client there, or empties data.cvmfs.path")
}

// Outlook is what a start says of CVMFS. It waits for the first round of probes alone.
func (d Directory) Outlook(ctx context.Context) (notes []string, err error) {
	for _, r := range d.prober.Results(ctx) {
		switch {
		case r.Name == mounts.Itself && r.Trouble != "":
			return nil, d.unusable(r)
		case r.Trouble != "":
			notes = append(notes, "CVMFS: "+r.String())
		}
	}
	return notes, nil
}

// Silent names the repositories that do not answer.
func (d Directory) Silent() []string {
	names := []string{}
	if d.prober != nil {
		for _, r := range d.prober.Known() {
			if r.Silent {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// Trouble says what is known to be the matter with the repository of a file; empty: nothing is.
func (d Directory) Trouble(file string) string {
	name, below := strings.CutPrefix(file, Inside+"/")
	if d.prober == nil || !below {
		return ""
	}
	name, _, _ = strings.Cut(name, "/")
	r, known := d.prober.Of(name)
	if !known || r.Trouble == "" {
		return ""
	}
	return r.String()
}

// Metrics returns what is known of the repositories; nil where there are none.
func (d Directory) Metrics() func() metrics.CVMFS {
	if d.prober == nil {
		return nil
	}
	return func() metrics.CVMFS {
		m := metrics.CVMFS{Stuck: d.prober.Stuck()}
		for _, r := range d.prober.Known() {
			if r.Name != mounts.Itself {
				m.Repositories = append(
					m.Repositories, metrics.Repository{Name: r.Name, Up: r.Trouble == "", Seconds: r.Took.Seconds()},
				)
			}
		}
		return m
	}
}

// Round looks at all once.
func (d Directory) Round(ctx context.Context) { d.prober.Round(ctx) }

// Of returns what was found last of a repository or file; false: nothing yet.
func (d Directory) Of(name string) (mounts.Result, bool) { return d.prober.Of(name) }

// Run looks at the repositories, and keeps what running workloads see of them whole when autofs is started anew.
// Processes returns processes of all workloads of this host. What goes on is given to start.
func (d Directory) Run(ctx context.Context, processes func(context.Context) ([]int, error), start func(func() error)) {
	if d.prober == nil {
		return
	}
	k := mounts.NewKeeper(mounts.KeeperConfig{
		Source: d.path, Target: Inside, Processes: processes, Program: []string{d.program, mounts.RenewCommand},
		Deadline: d.probe, Logger: d.log,
	})
	start(func() error { return d.prober.Run(ctx) })
	start(func() error { return k.Run(ctx) })
}

// Locks returns the directory of the service's locks where it has run, so that the doctor and it look in turn, and else
// another one.
func Locks(cfg config.Config, otherwise string) string {
	dir := filepath.Join(cfg.DataDir, "probes")
	if _, err := os.Stat(dir); err != nil {
		return otherwise
	}
	return dir
}
