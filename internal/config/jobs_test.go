package config

import (
	"strings"
	"testing"
	"time"
)

func TestWrongLimitsOfJobsAreTold(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: {keep: 5m}":                                 "jobs.keep",
		"jobs: {keep: -1h}":                                "jobs.keep",
		"jobs: {retry_pause: 6m}":                          "jobs.retry_pause",
		"jobs: {half_life: 0s}":                            "jobs.half_life",
		"jobs: {limits: [{running: -1}]}":                  "jobs.limits[0].running",
		"jobs: {limits: [{gpu_hours: -0.5}]}":              "jobs.limits[0].gpu_hours",
		"jobs: {limits: [{window: 2400h}]}":                "jobs.limits[0].window",
		"jobs: {limits: [{running: 10, waiting: 5}]}":      "jobs.limits[0].waiting",
		"jobs: {limits: [{groups: [nobody], running: 1}]}": "jobs.limits[0].groups[0]",
		"jobs: {limits: [{users: [''], running: 1}]}":      "jobs.limits[0].users[0]",
		"jobs: {limits: [{running: 1}, {running: 2}]}":     "jobs.limits[0]",
		"host: {cpus: -1}":                                 "host.cpus",
		"host: {cpus: 4}\ndocker: {cpus: 8}":               "host.cpus",
		"host: {memory: 1G}":                               "host.memory",
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
	c, err := Parse([]byte("environments: {groups: {higgs: [alice]}}\njobs: {limits: [{groups: [higgs], storage: 100G, gpu_hours: 2.5}, {running: 5}]}"))
	if err != nil {
		t.Fatal(err)
	}
	first := c.Jobs.Limits[0]
	if first.Storage != 100e9 || first.GPUHours != 2.5 || first.Running != 0 || time.Duration(first.Window) != 168*time.Hour || c.Jobs.Limits[1].Running != 5 || !c.Jobs.Yield {
		t.Errorf("%+v", c.Jobs)
	}
	var p problems
	if c.checkJobs(&p); len(p) > 0 {
		t.Errorf("%v", p)
	}
}
