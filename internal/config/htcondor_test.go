package config

import (
	"strings"
	"testing"
)

func TestHTCondor(t *testing.T) {
	tests := []struct{ text, want string }{
		{"htcondor: {enabled: true}", "because htcondor.enabled is true"},
		{"htcondor: {enabled: true}\nuplink: {url: 'https://a'}", ""},
		{"htcondor: {owner: 'no body'}", "htcondor.owner"},
		{"htcondor: {bin: condor}", "htcondor.bin"},
		{"htcondor: {enabled: true, bin: /no/such}\nuplink: {url: 'https://a'}", "a directory that is there"},
		{"htcondor: {enabled: true, bin: /usr/bin}\nuplink: {url: 'https://a'}", ""},
		{"htcondor: {cache: here}", "htcondor.cache"},
		{"htcondor: {cache: ''}", ""},
		{"htcondor: {binds: [/cvmfs, data]}", "htcondor.binds[1]"},
		{"htcondor: {image: '/shared/{digest}.sif'}", ""},
		{"htcondor: {image: send}", ""},
		{"htcondor: {image: /shared/one.sif}", "htcondor.image"},
		{"htcondor: {image: 'shared/{digest}.sif'}", "htcondor.image"},
		{"htcondor: {job_lease_duration: 0s}", "htcondor.job_lease_duration"},
		{"htcondor: {poll_interval: 10ms}", "htcondor.poll_interval"},
		{"htcondor: {max_jobs_per_user: -1}", "htcondor.max_jobs_per_user"},
		{"htcondor: {max_cpus: 32, max_memory: 128G}", ""},
		{"htcondor: {max_cpus: 0.5}", "htcondor.max_cpus"},
		{"htcondor: {max_memory: 1G}", "htcondor.max_memory"},
		{"htcondor: {requirements: \"a\\nqueue\"}", "htcondor.requirements"},
		{"htcondor: {rank: \"a\\nqueue\"}", "htcondor.rank"},
		{"htcondor: {extra: {accounting_group: higgs, +ProjectName: '\"x\"'}}", ""},
		{"htcondor: {extra: {'a b': c}}", "htcondor.extra"},
		{"htcondor: {extra: {a: \"b\\nqueue\"}}", "htcondor.extra.a"},
		{"profiles: [{name: far, backend: htcondor}]", "profiles[0].backend"},
		{"profiles: [{name: far, backend: slurm}]", "profiles[0].backend"},
		{"profiles: [{name: near}]", ""},
		{"jobs: {backend: docker}", "jobs.backend"},
		{"jobs: {backend: htcondor}", "jobs.backend"},
		{"htcondor: {enabled: true}\nuplink: {url: 'https://a'}\njobs: {backend: htcondor}", ""},
		{"htcondor: {enabled: true}\nuplink: {url: 'https://a'}\nprofiles: [{name: far, backend: htcondor, gpu: whole}]", ""},
		{"htcondor: {enabled: true}\nuplink: {url: 'https://a'}\nprofiles: [{name: near, gpu: whole}]", "profiles[0].gpu"},
		{"htcondor: {enabled: true}\nuplink: {url: 'https://a'}\njobs: {gpus: [whole]}", ""},
	}
	for _, tt := range tests {
		c, err := Parse([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		var p problems
		c.checkBackends(&p)
		c.checkProfiles(&p)
		c.checkGPU(&p)
		if tt.want == "" && len(p) > 0 || tt.want != "" && (len(p) != 1 || !strings.Contains(p[0].Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.text, p, tt.want)
		}
	}
}
