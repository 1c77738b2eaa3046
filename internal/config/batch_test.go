package config

import (
	"strings"
	"testing"
)

// TestBatch: what all batch systems have is checked of each, by its own name.
func TestBatch(t *testing.T) {
	const uplink = "\nuplink: {url: 'https://a'}"
	for _, b := range Backends() {
		if b.Batch == nil {
			continue
		}
		needs := map[string]string{BackendSlurm: ", dir: /shared"}[b.Name]
		for _, tt := range []struct{ keys, more, want string }{
			{"", "", ""},
			{"enabled: true" + needs, "", "because " + b.Name + ".enabled is true"},
			{"enabled: true" + needs, uplink, ""},
			{"bin: here", "", b.Name + ".bin"},
			{"bin: /no/such", "", ""},
			{"enabled: true, bin: /no/such" + needs, uplink, "a directory that is there, with the commands of " + b.System},
			{"enabled: true, bin: /usr/bin" + needs, uplink, ""},
			{"cache: here", "", b.Name + ".cache"},
			{"cache: ''", "", ""},
			{"binds: [/cvmfs, data]", "", b.Name + ".binds[1]"},
			{"poll_interval: 10ms", "", b.Name + ".poll_interval"},
			{"max_cpus: 32, max_memory: 128G", "", ""},
			{"max_cpus: 0.5", "", b.Name + ".max_cpus"},
			{"max_memory: 1G", "", b.Name + ".max_memory"},
			{"max_jobs_per_user: -1", "", b.Name + ".max_jobs_per_user"},
			{"max_jobs_per_user: 0", "", ""},
		} {
			text := b.Name + ": {" + tt.keys + "}" + tt.more
			c, err := Parse([]byte(text))
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			var p problems
			c.checkBackends(&p)
			if tt.want == "" && len(p) > 0 || tt.want != "" && (len(p) != 1 || !strings.Contains(p[0].Error(), tt.want)) {
				t.Errorf("%s: %v, want %q", text, p, tt.want)
			}
		}
	}
}
