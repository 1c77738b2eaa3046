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
		{main, "groups: {higgs: [alice]}\nenvironments: {quotas: {users: {alice: none}, groups: {higgs: 2T}}}", ""},
		{main, "hub_groups: {join: {all: ['main:higgs', 'main:a:b']}}\n" +
			"environments: {quotas: {groups: {all: 1G, 'main:top': 2G}}}", ""},
		{main, "groups: {'main:higgs': [eve]}", "groups: "},
		{main, "hub_groups: {join: {'main:all': ['main:higgs']}}", "hub_groups.join: "},
		{main, "hub_groups: {join: {all: ['other:higgs']}}", "hub_groups.join.all"},
		{main, "hub_groups: {join: {all: [higgs]}}", "hub_groups.join.all"},
		{mute, "hub_groups: {join: {all: ['main:higgs']}}", "hub_groups.join.all"},
		{main, "hub_groups: {enabled: false, join: {all: ['main:higgs']}}", "hub_groups.join.all"},
		{main, "hub_groups: {poll_interval: 1s}", "hub_groups: "},
		{main, "hub_groups: {poll_interval: 1m, max_age: 90s}", "hub_groups: "},
		{main, "environments: {quotas: {groups: {nobody: 1G}}}", "environments.quotas.groups"},
		{main, "environments: {retention: 0s}", ""},
		{main, "environments: {retention: 720h}", ""},
		{main, "environments: {retention: 5m}", "environments.retention"},
		{main, "environments: {retention: -1h}", "environments.retention"},
	} {
		c, err := Parse([]byte(tc.hubs + tc.text + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		var found problems
		c.checkGroups(&found)
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
	if err != nil || time.Duration(c.Environments.Retention) != 30*24*time.Hour {
		t.Errorf("environments.retention is %s, %v", time.Duration(c.Environments.Retention), err)
	}
}
