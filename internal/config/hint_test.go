package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnknownKeysGetAHint(t *testing.T) {
	tests := []struct{ text, want string }{
		{"docker:\n  sokket: x\n", "did you mean docker.socket?"},
		{"hubs:\n  - apiurl: x\n", "did you mean hubs[].api_url?"},
		{"profiles:\n  - {max_cpu: 1}\n", "did you mean profiles[].max_cpus?"},
		{"lisen: x\n", "did you mean listen?"},
		{"htcondor:\n  enabled: true\n  pol_interval: 1s\n", "did you mean htcondor.poll_interval?"},
		{"listen: a\nhtcondor: {pol_interval: 1s}\n", "did you mean htcondor.poll_interval?"},
		{"htcondor: {enabled: maybe}\n", `"maybe" is not true or false`},
		{"jobs:\n  max_cpus: many\n", `"many" is not a number`},
		{"ssh:\n  listen: ':2222'\n  nets: []\n", "did you mean ssh.allowed_networks?"},
		{"ssh: {nets: []}\n", "did you mean ssh.allowed_networks?"},
		{"Gpu: {}\n", "did you mean gpu?"},
		{"gpus: {}\n", "did you mean gpu?"},
		{"docker: {Socket: x}\n", "did you mean docker.socket?"},
		{"kubernetes: {}\n", "`slipway config example` shows every key"},
	}
	for _, tt := range tests {
		_, err := Parse([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Parse(%q) = %v, want %q", tt.text, err, tt.want)
		}
	}
	for _, far := range []string{"kubernetes: {}\n", "foo: 1\n", "data: {foo: 1}\n"} {
		if _, err := Parse([]byte(far)); err == nil || strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%v: nothing is near", err)
		}
	}
}

func TestKeysAreAllOfTheExample(t *testing.T) {
	all := keys(reflect.TypeFor[Config](), "")
	for _, want := range []string{"listen", "hubs[].api_url", "users.uids", "jobs.default_time", "environments.strip"} {
		if !slices.Contains(all, want) {
			t.Errorf("%v lack %s", all, want)
		}
	}
	for _, key := range all {
		if word := key[strings.LastIndexByte(key, '.')+1:]; !strings.Contains(Example(), word+":") {
			t.Errorf("the example does not show %s", key)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "axc", 1}, {"abc", "acb", 2}, {"kitten", "sitting", 3}}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestValues(t *testing.T) {
	tests := []struct {
		text string
		want Jobs
		at   string // of the mistake
	}{
		{text: "jobs:\n  max_memory: 2G\n", want: Jobs{MaxMemory: 2 << 30}},
		{text: "jobs:\n  max_memory: \"512MiB\"\n", want: Jobs{MaxMemory: 512 << 20}},
		{text: "jobs:\n  max_memory: 1048576\n", want: Jobs{MaxMemory: 1 << 20}},
		{text: "jobs:\n  max_time: '90m'\n", want: Jobs{MaxTime: 90 * 60e9}},
		{text: "jobs:\n  max_memory: -2G\n", at: "line 2: "},
		{text: "jobs:\n  max_memory: [1]\n", at: "line 2: "},
		{text: "jobs:\n  max_memory: {a: b}\n", at: "line 2: "},
		{text: "jobs:\n  max_time: 3 days\n", at: "line 2: "},
		{text: "jobs:\n  max_time: 90\n", at: "line 2: "},
		{text: "users:\n  uids: 1 - 2\n", at: "line 2: "},
		{text: "users:\n  uids: 20000\n", at: "line 2: "},
		{text: "users:\n  uids: 1-2-3\n", at: "line 2: "},
		{text: "users:\n  uids: 01-2\n", at: "line 2: "},
	}
	for _, tt := range tests {
		var c Config
		err := errors.Join(Decode([]byte(tt.text), &c, "")...)
		if tt.at != "" {
			if err == nil || !strings.Contains(err.Error(), tt.at) {
				t.Errorf("%q: %v, want an error at %s", tt.text, err, tt.at)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, c.Jobs); err != nil || diff != "" {
			t.Errorf("%q: %v %s", tt.text, err, diff)
		}
	}
}

func TestRanges(t *testing.T) {
	var c Config
	if err := Decode([]byte("users: {uids: 20000-59999}"), &c, ""); err != nil || c.Users.UIDs != (Range{20000, 59999}) {
		t.Errorf("%v, %v", c.Users.UIDs, err)
	}
}
