package catalog

import (
	"testing"

	"slipway/spawner"
)

func TestGPUsThatJobsMayAskFor(t *testing.T) {
	for _, tc := range []struct {
		allowed []string
		ask     any
		want    string // empty: refused
	}{
		{nil, nil, "none"}, {nil, "any", ""}, {[]string{"any"}, "any", "any"}, {[]string{"any"}, "any,capability>=8,optional", "any,capability>=8.0,optional"},
		{[]string{"any"}, "whole", ""}, {[]string{"any,optional"}, "any", ""}, {[]string{"any,optional"}, "any,optional", "any,optional"},
		{[]string{"*"}, "whole,count=2", "whole,count=2"}, {[]string{"*"}, "any,speed>=1", ""}, {[]string{"*"}, 1.0, ""},
	} {
		r, err := JobPolicy{GPUs: tc.allowed}.GPU(tc.ask)
		if (err == nil) != (tc.want != "") || err == nil && r.String() != tc.want {
			t.Errorf("of %q %v is %q, %v, want %q", tc.allowed, tc.ask, r, err, tc.want)
		}
		if err != nil {
			wantBad(t, err, "gpu", "")
		}
	}
}

func TestLimitsOfABackend(t *testing.T) {
	p := JobPolicy{
		DefaultCPUs: 1, MaxCPUs: 2, DefaultMemory: 1 << 30, MaxMemory: 2 << 30, Backend: "local",
		Most: map[string]JobMost{"htcondor": {CPUs: 8}},
	}
	for _, tc := range []struct {
		backend, fallback, cpus, memory, bad string
	}{
		{"", "local", "2", "2G", ""}, {"", "local", "3", "", "cpus"}, {"local", "htcondor", "3", "", "cpus"},
		{"htcondor", "local", "8", "2G", ""}, {"", "htcondor", "8", "", ""}, {"htcondor", "local", "9", "", "cpus"}, {"htcondor", "local", "", "3G", "memory"},
		{"any", "local", "8", "2G", ""}, {"any", "htcondor", "9", "", "cpus"}, {"any", "htcondor", "", "3G", "memory"},
	} {
		p.Backend = tc.fallback
		switch _, _, err := p.On(tc.backend).Resolve(tc.cpus, tc.memory, nil); {
		case tc.bad != "":
			wantBad(t, err, tc.bad, "")
		case err != nil:
			t.Errorf("%+v: %v", tc, err)
		}
	}
	if r := (spawner.Resources{CPUs: 4, Memory: 1 << 30}); p.Admits("local", r) || !p.Admits("htcondor", r) || !p.Admits("local", spawner.Resources{CPUs: 2, Memory: 2 << 30}) {
		t.Error("a backend admits what is over its limits, or not what is within")
	}
}
