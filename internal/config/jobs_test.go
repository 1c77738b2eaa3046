package config

import (
	"strings"
	"testing"
	"time"
)

func TestWrongLimitsOfJobsAreTold(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: {retention: 5m}":                                  "jobs.retention",
		"jobs: {retention: -1h}":                                 "jobs.retention",
		"jobs: {retry_pause: 6m}":                                "jobs.retry_pause",
		"jobs: {limits: [{max_running: -1}]}":                    "jobs.limits[0].max_running",
		"jobs: {limits: [{max_gpu_hours: -0.5}]}":                "jobs.limits[0].max_gpu_hours",
		"jobs: {limits: [{gpu_hours_window: 2400h}]}":            "jobs.limits[0].gpu_hours_window",
		"jobs: {limits: [{max_running: 10, max_submitted: 5}]}":  "jobs.limits[0].max_submitted",
		"jobs: {limits: [{groups: [nobody], max_running: 1}]}":   "jobs.limits[0].groups[0]",
		"jobs: {limits: [{users: [''], max_running: 1}]}":        "jobs.limits[0].users[0]",
		"jobs: {limits: [{max_running: 1}, {max_running: 2}]}":   "jobs.limits[0]",
		"host: {max_total_cpus: -1}":                             "host.max_total_cpus",
		"host: {max_total_cpus: 4}\ndocker: {max_total_cpus: 8}": "host.max_total_cpus",
		"host: {max_total_memory: 1G}":                           "host.max_total_memory",
	} {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not name %s", text, err, want)
		}
	}
}

func TestLimitsOfJobsAreReadOverTheirDefaults(t *testing.T) {
	c, err := Parse([]byte("environments: {}\njobs: {limits: [{groups: [higgs], max_storage: 100G, max_gpu_hours: 2.5}, {max_running: 5}]}\ngroups: {higgs: [alice]}"))
	if err != nil {
		t.Fatal(err)
	}
	first := c.Jobs.Limits[0]
	if first.MaxStorage != 100e9 || first.MaxGPUHours != 2.5 || first.MaxRunning != 0 || time.Duration(first.GPUHoursWindow) != 168*time.Hour || c.Jobs.Limits[1].MaxRunning != 5 || !c.Jobs.SessionsFirst {
		t.Errorf("%+v", c.Jobs)
	}
	var p problems
	if c.checkJobs(&p); len(p) > 0 {
		t.Errorf("%v", p)
	}
}
