package backends

import (
	"time"

	"slipway/internal/worker"
	"slipway/spawner/batch"
	"slipway/spawner/slurm"
)

// Slurm makes the backend of a cluster; nil: the site has none.
func (h Host) Slurm() (*batch.Backend, error) {
	c := h.Config.Slurm
	if !c.Enabled {
		return nil, nil
	}
	return slurm.New(slurm.Config{
		Config: batch.Config{
			Dir: c.Dir, Bin: c.Bin, Instance: h.Config.Instance, MarkKey: h.Key("slurm mark"), Owner: c.Owner,
			Image: c.Image, HomeDirs: c.HomeDirs,
			Node:      worker.Node{Apptainer: c.Apptainer, Cache: c.Cache, Scratch: c.Scratch, Binds: c.Binds},
			PollEvery: time.Duration(c.PollInterval), Arch: h.Arch, Logger: h.Log,
		},
		Partition: c.Partition, Account: c.Account, QOS: c.QOS, Constraint: c.Constraint, Reservation: c.Reservation,
		GRES: c.GRES,
	})
}
