package backends

import (
	"log/slog"
	"path/filepath"
	"time"

	"slipway/internal/config"
	"slipway/internal/worker"
	"slipway/spawner/batch"
	"slipway/spawner/htcondor"
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/pool"
)

// HTCondor makes the backend of a pool; nil: the site has none.
func (h Host) HTCondor(pool *pool.Pool) (*batch.Backend, error) {
	c := h.Config.HTCondor
	if !c.Enabled {
		return nil, nil
	}
	return htcondor.New(htcondor.Config{
		Config: batch.Config{
			Dir: filepath.Join(h.Config.DataDir, "htcondor"), Bin: c.Bin, Instance: h.Config.Instance,
			MarkKey: h.Key("htcondor mark"), Owner: c.Owner, Image: c.Image,
			HomeDirs: c.HomeDirs, Node: worker.Node{Apptainer: c.Apptainer, Cache: c.Cache, Binds: c.Binds},
			PollEvery: time.Duration(c.PollInterval), Arch: h.Arch, Logger: h.Log,
		},
		Domain: c.Domain, Key: c.Key, Requirements: c.Requirements, Rank: c.Rank, Extra: c.Extra,
		AccountingGroup: c.Group, Lease: time.Duration(c.JobLeaseDuration), Disk: int64(c.RequestDisk), Pool: pool,
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
