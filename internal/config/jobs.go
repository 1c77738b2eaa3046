package config

import (
	"fmt"
	"time"

	"slipway/internal/units"
)

// Jobs is the policy of batch jobs.
type Jobs struct {
	MaxCPUs       float64  `yaml:"max_cpus"`       // of one job
	MaxMemory     Size     `yaml:"max_memory"`     // of one job
	DefaultCPUs   float64  `yaml:"default_cpus"`   // of who does not say
	DefaultMemory Size     `yaml:"default_memory"` // of who does not say
	DefaultTime   Duration `yaml:"default_time"`   // of who does not say
	MaxTime       Duration `yaml:"max_time"`       // of one job
	GPUs          []string `yaml:"gpus"`           // what a job may ask for
	// Where jobs run whose submitter names none.
	Backend       string     `yaml:"backend"`
	Retention     Duration   `yaml:"retention"`      // after their end, with their files; 0: for ever
	RetryPause    Duration   `yaml:"retry_pause"`    // before a job is tried again by itself, for the first time
	SessionsFirst bool       `yaml:"sessions_first"` // sessions of this host go before its jobs
	Limits        []JobLimit `yaml:"limits"`
}

// JobLimit is what some users' jobs may have. The first whose users or groups they are among counts. Zero: not limited.
type JobLimit struct {
	Users          []string `yaml:"users"`  // it counts for; none, and no groups: for everybody
	Groups         []string `yaml:"groups"` // likewise
	MaxRunning     int      `yaml:"max_running"`
	MaxSubmitted   int      `yaml:"max_submitted"` // or running
	MaxStorage     Bound    `yaml:"max_storage"`
	MaxGPUHours    float64  `yaml:"max_gpu_hours"`    // of sessions too, within Window
	GPUHoursWindow Duration `yaml:"gpu_hours_window"` // in which GPU hours are counted
}

// Host is what sessions and jobs of this host may lease together. Zero: not limited.
type Host struct {
	MaxTotalCPUs   float64 `yaml:"max_total_cpus"`   // 0: not limited
	MaxTotalMemory Size    `yaml:"max_total_memory"` // 0: not limited
}

// How long jobs are kept at least, and within which time GPU hours may be limited: they are known as far back as that.
const (
	leastKeep   = time.Hour
	mostWindow  = 90 * 24 * time.Hour
	leastWindow = time.Hour
	// Jobs wait no longer than that before they are tried again.
	mostRetryPause = 5 * time.Minute
	week           = 7 * 24 * time.Hour
)

func defaultJobs() Jobs {
	return Jobs{
		MaxCPUs: 2, MaxMemory: 8 << 30, DefaultCPUs: 1, DefaultMemory: 2 << 30, DefaultTime: Duration(time.Hour),
		MaxTime: Duration(24 * time.Hour),
		Backend: BackendLocal, Retention: Duration(30 * 24 * time.Hour), RetryPause: Duration(10 * time.Second),
		SessionsFirst: true,
	}
}

func (l *JobLimit) setDefaults() {
	*l = JobLimit{GPUHoursWindow: Duration(week)}
}

// checkJobs looks at what jobs and sessions may have.
func (c Config) checkJobs(p *problems) {
	atMost := func(field string, value, most float64, shown any) {
		if value <= 0 || value > most {
			p.add("jobs.default_"+field, shown, "more than 0 and at most jobs.max_"+field)
		}
	}
	j := c.Jobs
	atMost("cpus", j.DefaultCPUs, j.MaxCPUs, j.DefaultCPUs)
	atMost("memory", float64(j.DefaultMemory), float64(j.MaxMemory), units.FormatMemory(int64(j.DefaultMemory)))
	atMost("time", float64(j.DefaultTime), float64(j.MaxTime), time.Duration(j.DefaultTime))
	for field, cpus := range map[string]float64{"docker.max_total_cpus": c.Docker.MaxTotalCPUs, "host.max_total_cpus": c.Host.MaxTotalCPUs} {
		if cpus < 0 {
			p.add(field, cpus, "0 for no limit, or a number of CPUs")
		}
	}
	if j.Retention < 0 || j.Retention > 0 && j.Retention < Duration(leastKeep) {
		p.add(
			"jobs.retention", time.Duration(j.Retention),
			fmt.Sprintf("0 for ever, or %s or more: users need time to fetch their results", leastKeep),
		)
	}
	if j.RetryPause < 0 || j.RetryPause > Duration(mostRetryPause) {
		p.add(
			"jobs.retry_pause", time.Duration(j.RetryPause), fmt.Sprintf("from 0s to %s, such as 10s", mostRetryPause),
		)
	}
	c.checkHost(p)
	for i, l := range j.Limits {
		c.checkJobLimit(p, fmt.Sprintf("jobs.limits[%d].", i), l)
		if i < len(j.Limits)-1 && len(l.Users)+len(l.Groups) == 0 {
			p.add(
				fmt.Sprintf("jobs.limits[%d]", i), "a limit for everybody",
				"the last place: those below it count for nobody, since the first that fits does",
			)
		}
	}
}

// checkHost looks whether the largest of what may be asked for can ever start.
func (c Config) checkHost(p *problems) {
	for field, part := range map[string]float64{"docker.max_total_cpus": c.Docker.MaxTotalCPUs, "jobs.default_cpus": c.Jobs.DefaultCPUs} {
		if c.Host.MaxTotalCPUs > 0 && part > c.Host.MaxTotalCPUs {
			p.add(
				"host.max_total_cpus", c.Host.MaxTotalCPUs,
				fmt.Sprintf("at least the %g of %s, or 0 for no limit", part, field),
			)
		}
	}
	for field, part := range map[string]Size{"docker.max_total_memory": c.Docker.MaxTotalMemory, "jobs.default_memory": c.Jobs.DefaultMemory} {
		if c.Host.MaxTotalMemory > 0 && part > c.Host.MaxTotalMemory {
			p.add(
				"host.max_total_memory", units.FormatMemory(int64(c.Host.MaxTotalMemory)),
				fmt.Sprintf("at least the %s of %s, or nothing for no limit", units.FormatMemory(int64(part)), field),
			)
		}
	}
}

func (c Config) checkJobLimit(p *problems, at string, l JobLimit) {
	for i, name := range l.Users {
		if name == "" {
			p.add(
				fmt.Sprintf("%susers[%d]", at, i), name,
				"the name of a user; of another realm than the site's: @realm/name",
			)
		}
	}
	for i, name := range l.Groups {
		if !c.isGroup(name) {
			p.add(fmt.Sprintf("%sgroups[%d]", at, i), name, someGroup)
		}
	}
	for key, n := range map[string]float64{"max_running": float64(l.MaxRunning), "max_submitted": float64(l.MaxSubmitted), "max_gpu_hours": l.MaxGPUHours} {
		if n < 0 {
			p.add(at+key, n, "0 for no limit, or more")
		}
	}
	if l.MaxSubmitted > 0 && l.MaxRunning > l.MaxSubmitted {
		p.add(
			at+"max_submitted", l.MaxSubmitted,
			fmt.Sprintf("at least the %d of max_running: it counts those that run too", l.MaxRunning),
		)
	}
	if l.GPUHoursWindow < Duration(leastWindow) || l.GPUHoursWindow > Duration(mostWindow) {
		p.add(
			at+"gpu_hours_window", time.Duration(l.GPUHoursWindow),
			fmt.Sprintf("from %s to %s, such as 168h: GPU hours are kept for so long", leastWindow, mostWindow),
		)
	}
}
