package config

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"slipway/internal/gpu"
)

// Slurm is the backend of sessions and jobs on the nodes of a cluster.
type Slurm struct {
	Batch
	Dir         string            `yaml:"dir"`     // that the nodes share with this host, at the same path
	Scratch     string            `yaml:"scratch"` // of each node, for what a run writes; empty: in dir
	Partition   string            `yaml:"partition"`
	Account     string            `yaml:"account"`
	QOS         string            `yaml:"qos"`
	Constraint  string            `yaml:"constraint"`
	Reservation string            `yaml:"reservation"`
	GRES        map[string]string `yaml:"gres"` // what a request for a GPU is in Slurm
}

// slurmWord is a name in Slurm.
var slurmWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

func defaultSlurm() Slurm {
	return Slurm{Batch: defaultBatch(), Scratch: "/var/tmp", GRES: map[string]string{}}
}

func (c Config) checkSlurm(p *problems) {
	s := c.Slurm
	if s.Enabled && s.Dir == "" {
		p.add("slurm.dir", "", "a directory that the nodes share with this host at the same path, such as /shared/slipway")
	}
	for field, path := range map[string]string{"dir": s.Dir, "scratch": s.Scratch} {
		if path != "" {
			p.absolute("slurm."+field, path)
		}
	}
	if s.Image != "" && (!filepath.IsAbs(s.Image) || !strings.Contains(s.Image, DigestWord)) {
		p.add("slurm.image", s.Image, "an absolute path with "+DigestWord+" in it, or nothing: Slurm moves no files")
	}
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
