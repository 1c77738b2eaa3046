package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"slipway/internal/quota"
	"slipway/internal/units"
	"slipway/spawner"
)

// A job's disk is its /tmp, /var/tmp and work directory. Where the file system has project quotas, the kernel lets a
// job write no more than its limit; elsewhere the shim measures, and ends a job that has more: see quota.

// diskOf returns the limit of a job: the site's, and its input files, which are copied into its work directory, beside
// it.
func (b *Backend) diskOf(l spawner.Launch) int64 {
	if b.cfg.Disk == 0 {
		return 0
	}
	limit := b.cfg.Disk
	for _, name := range l.Spec.Inputs {
		if info, err := os.Stat(filepath.Join(l.InputDir, name)); err == nil {
			limit += info.Size()
		}
	}
	return limit
}

// limitDisk has the kernel limit what a job writes; measured reports that it cannot.
func (p plan) limitDisk() (measured bool, err error) {
	if p.Disk == 0 {
		return false, nil
	}
	err = quota.Set(p.Scratch, p.Disk)
	if err == nil {
		err = quota.Join(p.RunDir, p.Scratch)
	}
	if errors.Is(err, quota.ErrUnsupported) {
		return true, quota.Clear(p.Scratch)
	}
	return false, err
}

// disk is where a job writes.
func (p plan) disk() []string { return []string{p.Scratch, p.RunDir} }

// full reports how much a job has that the kernel has kept from writing more.
func (p plan) full() int64 {
	const nearly = 100 // a hundredth
	if p.Disk == 0 || p.Measured {
		return 0
	}
	used, limit, err := quota.Used(p.Scratch)
	if err != nil || limit == 0 || used < limit-limit/nearly {
		return 0
	}
	return used
}

func outOfDisk(limit, used int64) (reason, remedy string) {
	const what = "disk limit of %s reached (%s in its work directory, /tmp and /var/tmp)"
	return fmt.Sprintf(what, units.DiskWords(limit), units.DiskWords(used)),
		"remove what is not needed while it runs, or write large files to a volume or your home directory; " +
			"the administrator sets the limit with local.max_disk"
}
