package doctor

import (
	"context"
	"os"
	"os/exec"
	"slices"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/quota"
	"slipway/internal/service/clients"
	"slipway/internal/units"
	"slipway/internal/xrd"
	"slipway/spawner/local"
)

// networkOfJobs says what jobs of this host reach.
func networkOfJobs(cfg config.Config, jobs *local.Backend) error {
	if local.Network(cfg.Local.Network) == local.OfHost {
		return errs.New(errs.Missing, "jobs share this host's network: they reach what listens on it, and can take the service's or the Hub's port while they restart").
			With("set local.network to outward")
	}
	if err := jobs.HasNetwork(); err != nil {
		return err
	}
	return goodWord(jobs.Reaches())
}

// diskOfJobs says who sees to the disk limit of jobs.
func diskOfJobs(cfg config.Config) error {
	limit := units.DiskWords(int64(cfg.Local.MaxDisk))
	switch {
	case cfg.Local.MaxDisk == 0:
		return goodWord("jobs may fill the disk: local.max_disk is none")
	case quota.Enforced(cfg.DataDir):
		return goodWord("the kernel lets a job write " + limit)
	default:
		return goodWord(
			"a job that has written more than " + limit + " is ended: the file system has no project quotas (prjquota)",
		)
	}
}

// storageChecks look whether storage elements and their caches answer, and whether they can be mounted here.
func storageChecks(cfg config.Data) []check {
	elements := xrd.New(xrd.Config{Elements: clients.StorageElements(cfg)})
	var all []check
	for _, e := range cfg.Storage {
		all = append(all, check{
			"storage " + e.Name + " at " + e.Origin, true,
			func(ctx context.Context) error { return elements.Ping(ctx, e.Origin) },
		})
		if e.Cache != "" {
			all = append(all, check{
				"cache of storage " + e.Name + " at " + e.Cache, true,
				func(ctx context.Context) error { return elements.Ping(ctx, e.Cache) },
			})
		}
	}
	if slices.ContainsFunc(cfg.Storage, func(e config.StorageElement) bool { return e.Mount }) {
		all = append(all, check{"mounting storage", false, mountsStorage})
	}
	return all
}

func mountsStorage(context.Context) error {
	if _, err := exec.LookPath("xrootdfs"); err != nil {
		return errs.New(errs.Missing, "xrootdfs is not installed: sessions do not see their storage as directories").
			With("apt-get install xrootd-fuse, or set mount: false")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return errs.New(errs.Missing, "there is no /dev/fuse: %w", err).With("modprobe fuse")
	}
	return nil
}
