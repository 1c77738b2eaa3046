package config

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"slipway/internal/units"
)

// Batch is what the configuration of every batch system has.
type Batch struct {
	Enabled        bool     `yaml:"enabled"`           // workloads may run in it
	Bin            string   `yaml:"bin"`               // where its commands are; empty: on PATH
	Owner          string   `yaml:"owner"`             // of all jobs; empty: each user's own
	Image          string   `yaml:"image"`             // where nodes find an environment's image; empty: they fetch it
	Cache          string   `yaml:"cache"`             // of images, on each node; empty: each job fetches its own
	HomeDirs       bool     `yaml:"home_dirs"`         // nodes have the users' homes where this host has them
	Binds          []string `yaml:"binds"`             // of each node, where they are there
	Apptainer      string   `yaml:"apptainer"`         // on the nodes; empty: on PATH
	PollInterval   Duration `yaml:"poll_interval"`     // the queue is asked
	MaxCPUs        float64  `yaml:"max_cpus"`          // of one job; 0: as jobs.max_cpus
	MaxMemory      Size     `yaml:"max_memory"`        // of one job; 0: as jobs.max_memory
	MaxJobsPerUser int      `yaml:"max_jobs_per_user"` // in the queue at once; 0: no limit
}

// DigestWord stands in Batch.Image for the digest of an environment, without what is before its colon.
const DigestWord = "{digest}"

func defaultBatch() Batch {
	return Batch{
		Cache: "/var/tmp/slipway-images", Binds: []string{"/cvmfs"}, PollInterval: Duration(5 * time.Second),
		// a large scan keeps a farm busy by that, and the batch system's other users keep their turn
		MaxJobsPerUser: 2000,
	}
}

// checkBatch looks at what a batch system has in common with all others.
func (c Config) checkBatch(of Backend, p *problems) {
	b, at := of.Batch(c), of.Name+"."
	if b.Enabled && c.Uplink.URL == "" {
		p.add("uplink.url", "", "the service's address for the hosts of "+of.System+
			", such as https://slipway.example.org, because "+at+"enabled is true")
	}
	if info, err := os.Stat(b.Bin); b.Enabled && filepath.IsAbs(b.Bin) && (err != nil || !info.IsDir()) {
		p.add(at+"bin", b.Bin, "a directory that is there, with the commands of "+of.System+
			"; or nothing, where they are on PATH")
	}
	for field, path := range map[string]string{"bin": b.Bin, "cache": b.Cache} {
		if path != "" {
			p.absolute(at+field, path)
		}
	}
	for i, path := range b.Binds {
		p.absolute(fmt.Sprintf("%sbinds[%d]", at, i), path)
	}
	if b.PollInterval < Duration(time.Second) {
		p.add(at+"poll_interval", time.Duration(b.PollInterval), "1s or more")
	}
	if b.MaxCPUs != 0 && !(b.MaxCPUs >= c.Jobs.DefaultCPUs) {
		p.add(at+"max_cpus", b.MaxCPUs, "at least jobs.default_cpus; or leave it out, and jobs.max_cpus counts there too")
	}
	if b.MaxMemory != 0 && b.MaxMemory < c.Jobs.DefaultMemory {
		p.add(
			at+"max_memory", units.FormatMemory(int64(b.MaxMemory)),
			"at least jobs.default_memory; or leave it out, and jobs.max_memory counts there too",
		)
	}
	if b.MaxJobsPerUser < 0 {
		p.add(at+"max_jobs_per_user", b.MaxJobsPerUser, "0 for no limit, or the most jobs that one user has in the queue")
	}
}
