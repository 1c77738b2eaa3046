package service

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"slipway/images"
	"slipway/internal/config"
	"slipway/spawner/htcondor"
	"slipway/spawner/htcondor/pool"
)

// markPurpose names the key that marks a pool's jobs as the service's among those that come of its secret key.
const markPurpose = "htcondor mark"

// newHTCondor makes the backend of a pool, whose jobs bear marks of a key; nil: the site has none. Of an environment it
// asks the library for which machines it is.
func newHTCondor(cfg config.Config, marks []byte, pool *pool.Pool, library *images.Library, log *slog.Logger) (*htcondor.Backend, error) {
	h := cfg.HTCondor
	if !h.Enabled {
		return nil, nil
	}
	return htcondor.New(htcondor.Config{
		Dir: filepath.Join(cfg.DataDir, "htcondor"), Bin: h.Bin, Instance: cfg.Instance, MarkKey: marks, Owner: h.Owner, Domain: h.Domain, Key: h.Key,
		Requirements: h.Requirements, Rank: h.Rank, Extra: h.Extra, AccountingGroup: h.Group, Image: h.Image, Cache: h.Cache, Apptainer: h.Apptainer,
		HomeDirs: h.HomeDirs, Binds: h.Binds, Lease: time.Duration(h.JobLeaseDuration), Disk: int64(h.RequestDisk), PollEvery: time.Duration(h.PollInterval), Pool: pool, Logger: log,
		Arch: func(digest string) (string, error) {
			parts, err := library.Parts(digest)
			if err != nil {
				return "", err
			}
			return parts.Architecture()
		},
	})
}

// runHTCondor looks after what sessions and jobs in a pool need of this service.
func (s *service) runHTCondor(ctx context.Context, run func(func() error)) {
	if s.htcondor == nil {
		return
	}
	run(func() error { return s.htcondor.Watch(ctx, s.engine.Wake) })
	run(func() error { return s.pool.Run(ctx) })
}
