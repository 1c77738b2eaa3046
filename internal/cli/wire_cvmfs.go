//go:build linux

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/metrics"
	"slipway/internal/mounts"
	"slipway/spawner/docker"
	"slipway/spawner/local"
)

// cvmfsInside is where workloads find CVMFS, wherever this host has it.
const cvmfsInside = "/cvmfs"

// cvmfs is what of CVMFS workloads of this host see; one without a prober is nothing.
type cvmfs struct {
	dir    string
	prober *mounts.Prober
}

// newCVMFS looks at what is configured, and at files below it besides, with locks below dir.
func newCVMFS(c config.CVMFS, locks string, log *slog.Logger, files ...string) (cvmfs, error) {
	if c.Path == "" {
		return cvmfs{}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return cvmfs{}, fmt.Errorf("find this program: %w", err)
	}
	names := append([]string{mounts.Itself}, c.Repositories...)
	return cvmfs{c.Path, mounts.NewProber(mounts.ProberConfig{
		Dir: c.Path, Names: append(names, files...), Deadline: time.Duration(c.Probe), Program: []string{self, probeCommand}, Locks: locks, Logger: log,
	})}, nil
}

// makeCVMFS refuses to serve where workloads would not see what is mounted after their start. A directory that does not
// answer is a matter of the hour, and told at each start.
func (s *service) makeCVMFS(ctx context.Context) error {
	locks := s.path("probes")
	err := os.MkdirAll(locks, 0o700)
	if err == nil {
		s.cvmfs, err = newCVMFS(s.cfg.Data.CVMFS, locks, s.log)
	}
	if err != nil || s.cvmfs.prober == nil {
		return err
	}
	return s.cvmfs.check(ctx, true)
}

// check looks at the directory itself: whether it answers, and whether mounts in it reach workloads.
func (c cvmfs) check(ctx context.Context, patient bool) error {
	r := c.prober.Ask(ctx, mounts.Itself)
	if r.Silent && patient {
		return nil // it says so in the log
	}
	if err := c.unusable(r); err != nil {
		return err
	}
	return mounts.CheckShared(c.dir)
}

// unusable is the error of a directory that can be used by nobody.
func (c cvmfs) unusable(r mounts.Result) error {
	if r.Trouble == "" {
		return nil
	}
	return errs.New(errs.Unavailable, "the directory with CVMFS on this host (%s) %s", c.dir, r.Trouble).
		With("the administrator looks at autofs and the CVMFS client there, or empties data.cvmfs.path")
}

// outlook is what a start says of CVMFS. It waits for the first round of probes alone.
func (c cvmfs) outlook(ctx context.Context) (notes []string, err error) {
	for _, r := range c.prober.Results(ctx) {
		switch {
		case r.Name == mounts.Itself && r.Trouble != "":
			return nil, c.unusable(r)
		case r.Trouble != "":
			notes = append(notes, "CVMFS: "+r.String())
		}
	}
	return notes, nil
}

// silent names the repositories that do not answer.
func (c cvmfs) silent() []string {
	names := []string{}
	if c.prober != nil {
		for _, r := range c.prober.Known() {
			if r.Silent {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// forDocker and forJobs add what workloads see to the configuration of the backends of this host.
func (c cvmfs) forDocker(cfg *docker.Config) {
	if c.prober != nil {
		cfg.Mounts = append(cfg.Mounts, docker.Mount{Source: c.dir, Target: cvmfsInside, ReadOnly: true, Propagation: "rslave"})
		cfg.Outlook = c.outlook
	}
}

func (c cvmfs) forJobs(cfg *local.Config) {
	if c.prober != nil {
		cfg.Mounts = append(cfg.Mounts, local.Mount{Source: c.dir, Target: cvmfsInside})
		cfg.Outlook = c.outlook
	}
}

// metrics returns what is known of the repositories; nil where there are none.
func (c cvmfs) metrics() func() metrics.CVMFS {
	if c.prober == nil {
		return nil
	}
	return func() metrics.CVMFS {
		m := metrics.CVMFS{Stuck: c.prober.Stuck()}
		for _, r := range c.prober.Known() {
			if r.Name != mounts.Itself {
				m.Repositories = append(m.Repositories, metrics.Repository{Name: r.Name, Up: r.Trouble == "", Seconds: r.Took.Seconds()})
			}
		}
		return m
	}
}

// runCVMFS looks at the repositories, and keeps what running workloads see of them whole when autofs is started anew.
func (s *service) runCVMFS(ctx context.Context, start func(func() error)) error {
	c := s.cvmfs
	if c.prober == nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	k := mounts.NewKeeper(mounts.KeeperConfig{
		Source: c.dir, Target: cvmfsInside, Processes: s.processes, Program: []string{self, renewCommand},
		Deadline: time.Duration(s.cfg.Data.CVMFS.Probe), Logger: s.log,
	})
	start(func() error { return c.prober.Run(ctx) })
	start(func() error { return k.Run(ctx) })
	return nil
}

// processes returns processes of all workloads that run on this host.
func (s *service) processes(ctx context.Context) ([]int, error) {
	sessions, err := s.docker.Processes(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := s.local.Processes(ctx)
	return append(sessions, jobs...), err
}

const (
	probeCommand = "probe-directory"
	renewCommand = "renew-mount"
)

// renewMountCommand is how a running workload gets what was mounted anew.
func renewMountCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: renewCommand + " PID SOURCE TARGET DEVICE", Short: "Mount a directory anew for a running workload (started by the service)", Hidden: true,
		Args: exactly(4, "a process, a directory, where it has it and what it has there"),
		RunE: func(_ *cobra.Command, args []string) error {
			return mounts.RenewMount(env.Stdout, args[0], args[1], args[2], args[3])
		},
	}
}

// probeDirectoryCommand is how directories are looked at whose file systems may never answer.
func probeDirectoryCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use: probeCommand + " LOCK DIR", Short: "Look whether a directory answers (started by the service)", Hidden: true, Args: exactly(2, "a lock and a directory"),
		RunE: func(_ *cobra.Command, args []string) error { return mounts.Probe(env.Stdout, args[0], args[1]) },
	}
}

// doctorLocks are those of the service where it has run, so that doctor and service look in turn.
func doctorLocks(cfg config.Config, scratch string) string {
	dir := filepath.Join(cfg.DataDir, "probes")
	if _, err := os.Stat(dir); err != nil {
		return scratch
	}
	return dir
}
