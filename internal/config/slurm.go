package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/units"
)

// Slurm is the backend of jobs on the nodes of a cluster.
type Slurm struct {
	Enabled        bool              `yaml:"enabled"` // jobs may run on the cluster
	Bin            string            `yaml:"bin"`     // where its commands are; empty: on PATH
	Dir            string            `yaml:"dir"`     // that the nodes share with this host, at the same path
	Owner          string            `yaml:"owner"`   // of all jobs; empty: each user's own
	Partition      string            `yaml:"partition"`
	Account        string            `yaml:"account"`
	QOS            string            `yaml:"qos"`
	Constraint     string            `yaml:"constraint"`
	Reservation    string            `yaml:"reservation"`
	GRES           map[string]string `yaml:"gres"`              // what a request for a GPU is in Slurm
	Image          string            `yaml:"image"`             // where nodes find an environment's image; empty: they fetch it
	Cache          string            `yaml:"cache"`             // of images, on each node; empty: each job fetches its own
	HomeDirs       bool              `yaml:"home_dirs"`         // nodes have the users' homes where this host has them
	Binds          []string          `yaml:"binds"`             // of each node, where they are there
	Apptainer      string            `yaml:"apptainer"`         // on the nodes; empty: on PATH
	PollInterval   Duration          `yaml:"poll_interval"`     // the queue is asked
	MaxCPUs        float64           `yaml:"max_cpus"`          // of one job; 0: as jobs.max_cpus
	MaxMemory      Size              `yaml:"max_memory"`        // of one job; 0: as jobs.max_memory
	MaxJobsPerUser int               `yaml:"max_jobs_per_user"` // in the queue at once; 0: no limit
}

// slurmWord is a name in Slurm.
var slurmWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

func defaultSlurm() Slurm {
	return Slurm{
		GRES: map[string]string{}, Cache: "/var/tmp/slipway-images", Binds: []string{"/cvmfs"}, PollInterval: Duration(5 * time.Second),
		MaxJobsPerUser: 2000,
	}
}

func (s Slurm) limits() BatchLimits {
	return BatchLimits{MaxCPUs: s.MaxCPUs, MaxMemory: s.MaxMemory, MaxJobsPerUser: s.MaxJobsPerUser}
}

func (c Config) checkSlurm(p *problems) {
	s := c.Slurm
	if s.Enabled && c.Uplink.URL == "" {
		p.add("uplink.url", "", "the service's address for the nodes, such as https://slipway.example.org, because slurm.enabled is true")
	}
	if s.Enabled && s.Dir == "" {
		p.add("slurm.dir", "", "a directory that the nodes share with this host at the same path, such as /shared/slipway")
	}
	if info, err := os.Stat(s.Bin); s.Enabled && filepath.IsAbs(s.Bin) && (err != nil || !info.IsDir()) {
		p.add("slurm.bin", s.Bin, "a directory that is there, with sbatch and the others; or nothing, where they are on PATH")
	}
	for field, path := range map[string]string{"bin": s.Bin, "cache": s.Cache, "dir": s.Dir} {
		if path != "" {
			p.absolute("slurm."+field, path)
		}
	}
	for i, path := range s.Binds {
		p.absolute(fmt.Sprintf("slurm.binds[%d]", i), path)
	}
	if s.Image != "" && (!filepath.IsAbs(s.Image) || !strings.Contains(s.Image, DigestWord)) {
		p.add("slurm.image", s.Image, "an absolute path with "+DigestWord+" in it, or nothing: Slurm moves no files")
	}
	if s.PollInterval < Duration(time.Second) {
		p.add("slurm.poll_interval", time.Duration(s.PollInterval), "1s or more")
	}
	c.checkSlurmLimits(p)
	for field, word := range map[string]string{
		"owner": s.Owner, "partition": s.Partition, "account": s.Account, "qos": s.QOS, "reservation": s.Reservation,
	} {
		if word != "" && !slurmWord.MatchString(word) {
			p.add("slurm."+field, word, "a name of letters, digits and ._-, or nothing")
		}
	}
	if strings.ContainsAny(s.Constraint, " \t\r\n\x00") {
		p.add("slurm.constraint", s.Constraint, "features of nodes without spaces, such as cvmfs&ib")
	}
	for _, request := range slices.Sorted(maps.Keys(s.GRES)) {
		if r, err := gpu.ParseRequest(request); err != nil || r.None() || r.String() != request {
			p.add("slurm.gres", request, "what a job asks for, such as whole or 1g.18gb")
		}
		if gres := s.GRES[request]; gres == "" || strings.ContainsAny(gres, " \t\r\n\x00") {
			p.add("slurm.gres."+request, gres, "a generic resource such as gpu:v100:1")
		}
	}
}

func (c Config) checkSlurmLimits(p *problems) {
	s := c.Slurm
	if s.MaxCPUs != 0 && !(s.MaxCPUs >= c.Jobs.DefaultCPUs) {
		p.add("slurm.max_cpus", s.MaxCPUs, "at least jobs.default_cpus; or leave it out, and jobs.max_cpus counts there too")
	}
	if s.MaxMemory != 0 && s.MaxMemory < c.Jobs.DefaultMemory {
		p.add(
			"slurm.max_memory", units.FormatMemory(int64(s.MaxMemory)),
			"at least jobs.default_memory; or leave it out, and jobs.max_memory counts there too",
		)
	}
	if s.MaxJobsPerUser < 0 {
		p.add("slurm.max_jobs_per_user", s.MaxJobsPerUser, "0 for no limit, or the most jobs that one user has in the queue")
	}
}
