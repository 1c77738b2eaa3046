package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEnvironmentsGroups(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	main := "hubs: [{name: main, api_url: 'http://h/hub/api', spawner_token_file: " + token + ", token_file: " + token + "}]\n"
	mute := strings.Replace(main, ", token_file: "+token, "", 1)
	for _, tc := range []struct{ hubs, text, want string }{
		{main, "groups: {higgs: [alice]}, quotas: {users: {alice: none}, groups: {higgs: 2T}}", ""},
		{main, "hub_groups: {join: {all: ['main:higgs', 'main:a:b']}}, quotas: {groups: {all: 1G, 'main:top': 2G}}", ""},
		{main, "groups: {'main:higgs': [eve]}", "environments.groups"},
		{main, "hub_groups: {join: {'main:all': ['main:higgs']}}", "environments.hub_groups.join"},
		{main, "hub_groups: {join: {all: ['other:higgs']}}", "environments.hub_groups.join.all"},
		{main, "hub_groups: {join: {all: [higgs]}}", "environments.hub_groups.join.all"},
		{mute, "hub_groups: {join: {all: ['main:higgs']}}", "environments.hub_groups.join.all"},
		{main, "hub_groups: {use: false, join: {all: ['main:higgs']}}", "environments.hub_groups.join.all"},
		{main, "hub_groups: {every: 1s}", "environments.hub_groups"},
		{main, "hub_groups: {every: 1m, fresh: 90s}", "environments.hub_groups"},
		{main, "quotas: {groups: {nobody: 1G}}", "environments.quotas.groups"},
		{main, "max_files: 0", "environments.max_files"},
		{main, "keep: 0s", ""},
		{main, "keep: 720h", ""},
		{main, "keep: 5m", "environments.keep"},
		{main, "keep: -1h", "environments.keep"},
	} {
		c, err := Parse([]byte(tc.hubs + "environments: {" + tc.text + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		var found problems
		c.checkEnvironments(&found)
		if text := strings.Join(texts(found), "; "); tc.want == "" && text != "" || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %q, want %q", tc.text, text, tc.want)
		}
	}
}

func texts(list []error) (out []string) {
	for _, err := range list {
		out = append(out, err.Error())
	}
	return out
}

// TestUnnamedEnvironmentsGoByDefault: each freeze of a cell leaves one, and nobody would ever clear them away.
func TestUnnamedEnvironmentsGoByDefault(t *testing.T) {
	c, err := Parse([]byte("environments: {}\n"))
	if err != nil || time.Duration(c.Environments.Keep) != 30*24*time.Hour {
		t.Errorf("environments.keep is %s, %v", time.Duration(c.Environments.Keep), err)
	}
}
