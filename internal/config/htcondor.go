package config

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// HTCondor is the backend of sessions and jobs on the worker nodes of a pool.
type HTCondor struct {
	Batch
	Domain           string            `yaml:"domain"` // of the identities; empty: the pool's own
	Key              string            `yaml:"key"`    // that signs tokens for them
	Group            string            `yaml:"accounting_group"`
	Requirements     string            `yaml:"requirements"`       // of all jobs, beside what each needs
	Rank             string            `yaml:"rank"`               // of all jobs
	Extra            map[string]string `yaml:"extra"`              // submit commands of all jobs
	RequestDisk      Size              `yaml:"request_disk"`       // that a job asks for, beside its image and inputs
	JobLeaseDuration Duration          `yaml:"job_lease_duration"` // how long a job outlives the connection to its worker
	Elastic          bool              `yaml:"elastic"`            // workers come as they are needed: nothing is refused for those that are there
}

// ImageSent is the HTCondor.Image of a site whose jobs bring their images along.
const ImageSent = "send"

func defaultHTCondor() HTCondor {
	return HTCondor{
		Batch: defaultBatch(), Key: "POOL", RequestDisk: 4 << 30, JobLeaseDuration: Duration(20 * time.Minute),
	}
}

var (
	accountName   = regexp.MustCompile(`^[a-z_][a-z0-9_.-]*$`)
	submitCommand = regexp.MustCompile(`^\+?[A-Za-z_][A-Za-z0-9_.]*$`)
)

func (c Config) checkHTCondor(p *problems) {
	h := c.HTCondor
	if h.Owner != "" && !accountName.MatchString(h.Owner) {
		p.add(
			"htcondor.owner", h.Owner,
			"an account that submits jobs to the pool, such as slipway; or nothing, and each user's jobs are her own",
		)
	}
	if h.Image != "" && h.Image != ImageSent && (!filepath.IsAbs(h.Image) || !strings.Contains(h.Image, DigestWord)) {
		p.add("htcondor.image", h.Image, "an absolute path with "+DigestWord+" in it, such as /shared/slipway/"+
			DigestWord+".sif; "+ImageSent+", or nothing")
	}
	if h.JobLeaseDuration < Duration(time.Second) {
		p.add("htcondor.job_lease_duration", time.Duration(h.JobLeaseDuration), "1s or more")
	}
	for field, text := range map[string]string{"requirements": h.Requirements, "rank": h.Rank} {
		checkLine("htcondor."+field, text, p)
	}
	for _, command := range slices.Sorted(maps.Keys(h.Extra)) {
		if !submitCommand.MatchString(command) {
			p.add(
				"htcondor.extra", command,
				"a command of HTCondor's submit files, such as accounting_group or +ProjectName",
			)
		}
		checkLine("htcondor.extra."+command, h.Extra[command], p)
	}
}

// checkLine refuses what would be more than one line of a submit file.
func checkLine(field, text string, p *problems) {
	if strings.ContainsAny(text, "\n\r\x00") {
		p.add(field, text, "one line")
	}
}
