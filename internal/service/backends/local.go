package backends

import (
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"slipway/images/sif"
	"slipway/internal/config"
	"slipway/internal/cvmfs"
	"slipway/spawner/local"
)

// Local makes the backend of jobs on this host, with self and seen as Docker has them. Agent is the name of the program
// below control.BinDir that becomes each job's agent.
func Local(cfg config.Config, self, agent string, seen cvmfs.Directory, log *slog.Logger) (*local.Backend, error) {
	c := local.Config{
		Dir: filepath.Join(cfg.DataDir, "local"), Apptainer: cfg.Local.Apptainer, CgroupParent: cfg.Instance,
		Weight: weightOf(cfg.Jobs), Self: self, Agent: agent,
		Instance: cfg.Instance, Squashfs: squashfsOf, Network: local.Network(cfg.Local.Network),
		Reach: servicesForJobs(cfg), Disk: int64(cfg.Local.MaxDisk), Logger: log,
	}
	cvmfsForJobs(seen, &c)
	trustForJobs(cfg, &c)
	return local.New(c)
}

// cvmfsForJobs adds CVMFS to what jobs see.
func cvmfsForJobs(d cvmfs.Directory, cfg *local.Config) {
	if d.Path() != "" {
		cfg.Mounts = append(cfg.Mounts, local.Mount{Source: d.Path(), Target: cvmfs.Inside})
		cfg.Outlook = d.Outlook
	}
}

// jobsWeight is what all jobs of this host weigh on its processors, in percent of what other groups of processes do,
// where sessions go first. Less would starve them beside what has no group of its own, each process of which weighs as
// much as a group.
const jobsWeight = 50

// weightOf is what jobs of this host weigh; 0: as much as others.
func weightOf(j config.Jobs) int {
	if j.SessionsFirst {
		return jobsWeight
	}
	return 0
}

// squashfsOf says where in an environment's file its squashfs begins.
func squashfsOf(file string) (int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	image, err := sif.Open(f, info.Size())
	if err != nil {
		return 0, err
	}
	return image.Partition.Offset, nil
}

// servicesForJobs are those that jobs reach also where this host has them: what the administrator names, and the
// storage elements and their caches.
func servicesForJobs(cfg config.Config) []string {
	all := slices.Clone(cfg.Local.Reach)
	for _, e := range cfg.Data.Storage {
		for _, server := range []string{e.Origin, e.Cache} {
			if u, err := url.Parse(server); err == nil && u.Host != "" {
				all = append(all, u.Host)
			}
		}
	}
	return all
}
