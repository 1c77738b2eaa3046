package backends

import (
	"log/slog"
	"path/filepath"
	"time"

	"slipway/internal/config"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor"
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/pool"
)

// HTCondor makes the backend of a pool, whose jobs bear marks of a key; nil: the site has none. Arch returns for which
// machines an environment is.
func HTCondor(
	cfg config.Config, marks []byte, pool *pool.Pool, arch func(digest string) (string, error), log *slog.Logger,
) (*batch.Backend, error) {
	h := cfg.HTCondor
	if !h.Enabled {
		return nil, nil
	}
	return htcondor.New(htcondor.Config{
		Config: batch.Config{
			Dir: filepath.Join(cfg.DataDir, "htcondor"), Bin: h.Bin, Instance: cfg.Instance, MarkKey: marks,
			Owner: h.Owner, Image: h.Image, Cache: h.Cache, Apptainer: h.Apptainer, HomeDirs: h.HomeDirs,
			Binds: h.Binds, PollEvery: time.Duration(h.PollInterval), Arch: arch, Logger: log,
		},
		Domain: h.Domain, Key: h.Key, Requirements: h.Requirements, Rank: h.Rank, Extra: h.Extra,
		AccountingGroup: h.Group, Lease: time.Duration(h.JobLeaseDuration), Disk: int64(h.RequestDisk), Pool: pool,
	})
}

// Pool makes what knows the machines of the site's pool, with what it has had in files of a directory; nil: the site
// has none.
func Pool(cfg config.Config, records string, log *slog.Logger) (*pool.Pool, error) {
	if !cfg.HTCondor.Enabled {
		return nil, nil
	}
	return pool.New(pool.Config{
		Run: commands.In(cfg.HTCondor.Bin), Site: cfg.HTCondor.Domain, Elastic: cfg.HTCondor.Elastic, Logger: log,
		History: filepath.Join(records, "pool-gpus.jsonl"), Seen: filepath.Join(records, "pool-slots.json"),
	})
}
