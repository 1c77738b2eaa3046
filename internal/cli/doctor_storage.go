//go:build linux

package cli

import (
	"context"
	"os"
	"os/exec"
	"slices"

	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/xrd"
)

// storageChecks look whether storage elements and their caches answer, and whether they can be mounted here.
func storageChecks(cfg config.Data) []check {
	elements := xrd.New(xrd.Config{Elements: elementsOf(cfg)})
	var all []check
	for _, e := range cfg.Storage {
		all = append(all, check{"storage " + e.Name + " at " + e.Origin, true, func(ctx context.Context) error { return elements.Ping(ctx, e.Origin) }})
		if e.Cache != "" {
			all = append(all, check{"cache of storage " + e.Name + " at " + e.Cache, true, func(ctx context.Context) error { return elements.Ping(ctx, e.Cache) }})
		}
	}
	if slices.ContainsFunc(cfg.Storage, func(e config.StorageElement) bool { return e.Mount }) {
		all = append(all, check{"mounting storage", false, mountsStorage})
	}
	return all
}

func mountsStorage(context.Context) error {
	if _, err := exec.LookPath("xrootdfs"); err != nil {
		return errs.New(errs.Missing, "xrootdfs is not installed: sessions do not see their storage as directories").With("apt-get install xrootd-fuse, or set mount: false")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return errs.New(errs.Missing, "there is no /dev/fuse: %w", err).With("modprobe fuse")
	}
	return nil
}
