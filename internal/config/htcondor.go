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

	"slipway/internal/units"
)

// HTCondor is the backend of sessions and jobs on the worker nodes of a pool.
type HTCondor struct {
	Enabled          bool              `yaml:"enabled"` // sessions and jobs may run in the pool
	Bin              string            `yaml:"bin"`     // where its commands are; empty: on PATH
	Owner            string            `yaml:"owner"`   // of all jobs; empty: each user's own
	Domain           string            `yaml:"domain"`  // of the identities; empty: the pool's own
	Key              string            `yaml:"key"`     // that signs tokens for them
	Group            string            `yaml:"accounting_group"`
	Requirements     string            `yaml:"requirements"`       // of all jobs, beside what each needs
	Rank             string            `yaml:"rank"`               // of all jobs
	Extra            map[string]string `yaml:"extra"`              // submit commands of all jobs
	Image            string            `yaml:"image"`              // where workers find an environment's image; send: with the job; empty: they fetch it
	RequestDisk      Size              `yaml:"request_disk"`       // that a job asks for, beside its image and inputs
	Cache            string            `yaml:"cache"`              // of images, on each worker; empty: each job fetches its own
	HomeDirs         bool              `yaml:"home_dirs"`          // workers have the users' homes where this host has them
	Binds            []string          `yaml:"binds"`              // of each worker, where they are there
	Apptainer        string            `yaml:"apptainer"`          // on the workers; empty: on PATH
	JobLeaseDuration Duration          `yaml:"job_lease_duration"` // how long a job outlives the connection to its worker
	PollInterval     Duration          `yaml:"poll_interval"`      // the queue is asked
	MaxCPUs          float64           `yaml:"max_cpus"`           // of one job; 0: as jobs.max_cpus
	MaxMemory        Size              `yaml:"max_memory"`         // of one job; 0: as jobs.max_memory
	MaxJobsPerUser   int               `yaml:"max_jobs_per_user"`  // in the queue at once; 0: no limit
	Elastic          bool              `yaml:"elastic"`            // workers come as they are needed: nothing is refused for those that are there
}

// DigestWord stands in HTCondor.Image for the digest of an environment, without what is before its colon.
const DigestWord = "{digest}"

// ImageSent is the HTCondor.Image of a site whose jobs bring their images along.
const ImageSent = "send"

func defaultHTCondor() HTCondor {
	return HTCondor{
		Key: "POOL", RequestDisk: 4 << 30, Cache: "/var/tmp/slipway-images", Binds: []string{"/cvmfs"},
		JobLeaseDuration: Duration(20 * time.Minute), PollInterval: Duration(5 * time.Second),
		// a large scan keeps a farm busy by that, and the access point's other users keep their turn
		MaxJobsPerUser: 2000,
	}
}

func (h HTCondor) limits() BatchLimits {
	return BatchLimits{MaxCPUs: h.MaxCPUs, MaxMemory: h.MaxMemory, MaxJobsPerUser: h.MaxJobsPerUser}
}

var (
	accountName   = regexp.MustCompile(`^[a-z_][a-z0-9_.-]*$`)
	submitCommand = regexp.MustCompile(`^\+?[A-Za-z_][A-Za-z0-9_.]*$`)
)

func (c Config) checkHTCondor(p *problems) {
	h := c.HTCondor
	if h.Enabled && c.Uplink.URL == "" {
		p.add("uplink.url", "", "the service's address for the pool's workers, such as https://slipway.example.org, because htcondor.enabled is true")
	}
	if h.Owner != "" && !accountName.MatchString(h.Owner) {
		p.add(
			"htcondor.owner", h.Owner,
			"an account that submits jobs to the pool, such as slipway; or nothing, and each user's jobs are her own",
		)
	}
	if info, err := os.Stat(h.Bin); h.Enabled && filepath.IsAbs(h.Bin) && (err != nil || !info.IsDir()) {
		p.add(
			"htcondor.bin", h.Bin,
			"a directory that is there, with condor_submit and the others; or nothing, where they are on PATH",
		)
	}
	for field, path := range map[string]string{"bin": h.Bin, "cache": h.Cache} {
		if path != "" {
			p.absolute("htcondor."+field, path)
		}
	}
	for i, path := range h.Binds {
		p.absolute(fmt.Sprintf("htcondor.binds[%d]", i), path)
	}
	if h.Image != "" && h.Image != ImageSent && (!filepath.IsAbs(h.Image) || !strings.Contains(h.Image, DigestWord)) {
		p.add("htcondor.image", h.Image, "an absolute path with "+DigestWord+" in it, such as /shared/slipway/"+
			DigestWord+".sif; "+ImageSent+", or nothing")
	}
	for field, d := range map[string]Duration{"job_lease_duration": h.JobLeaseDuration, "poll_interval": h.PollInterval} {
		if d < Duration(time.Second) {
			p.add("htcondor."+field, time.Duration(d), "1s or more")
		}
	}
	if h.MaxCPUs != 0 && !(h.MaxCPUs >= c.Jobs.DefaultCPUs) {
		p.add(
			"htcondor.max_cpus", h.MaxCPUs,
			"at least jobs.default_cpus; or leave it out, and jobs.max_cpus counts in the pool too",
		)
	}
	if h.MaxMemory != 0 && h.MaxMemory < c.Jobs.DefaultMemory {
		p.add(
			"htcondor.max_memory", units.FormatMemory(int64(h.MaxMemory)),
			"at least jobs.default_memory; or leave it out, and jobs.max_memory counts in the pool too",
		)
	}
	if h.MaxJobsPerUser < 0 {
		p.add(
			"htcondor.max_jobs_per_user", h.MaxJobsPerUser,
			"0 for no limit, or the most jobs that one user has in the queue",
		)
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
