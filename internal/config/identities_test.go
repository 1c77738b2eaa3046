package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestIdentities: each mistake is told by its key.
func TestIdentities(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", "# who\nalice 1001 100,5000=higgs\nbob 1002 100\n\"carol lee\" 1003 100\n")
	gridmap := file("gridmap", "\"/DC=ch/CN=alice\" alice,bob\n\"/atlas/*\" .atlas\n")
	for name, tc := range map[string]struct{ yaml, says string }{
		"nothing":              {"listen: 127.0.0.1:8090", ""},
		"a table":              {"users: {accounts: table, table: " + good + "}", ""},
		"this host's accounts": {`users: {accounts: nss}` + "\n" + `identities: {accounts: [{match: '^([a-z]+)@uni\.example$', account: '$1'}]}`, ""},
		"another source":       {"users: {accounts: ldap}", "users.accounts"},
		"no table":             {"users: {accounts: table}", "users.table"},
		"none there":           {"users: {accounts: table, table: /nowhere}", "there is no file"},
		"a table unasked":      {"users: {table: " + good + "}", "users.table"},
		"one number for two":   {"users: {accounts: table, table: " + file("two", "alice 1001 100\nbob 1001 100\n") + "}", "line 2"},
		"root":                 {"users: {accounts: table, table: " + file("root", "alice 0 0\n") + "}", "line 1"},
		"half a number":        {"users: {accounts: table, table: " + file("half", "alice 1001x 100\n") + "}", "line 1"},
		"two lines for one":    {"users: {accounts: table, table: " + file("twice", "alice 1001 100\nalice 1002 100\n") + "}", "line 2"},
		"a home":               {"users: {accounts: table, table: " + file("home", "alice 1001 100 /data/alice\n") + "}", "users.home"},
		"keys unasked":         {"users: {hub_account: {uid: uid}}", "hub_account.uid"},
		"no key":               {"users: {accounts: hub}", "hub_account.uid"},
		"half a key":           {"users: {accounts: hub, hub_account: {uid: a.}}", "hub_account.uid"},
		"no anchor":            {"identities: {certificates: [{match: '/CN=(.*)$', user: '$1'}]}", "certificates[0].match"},
		"no end":               {"identities: {certificates: [{match: '^/CN=(.*)', user: '$1'}]}", "certificates[0].match"},
		"an end in words":      {`identities: {certificates: [{match: '^/CN=(.*)\$', user: '$1'}]}`, "certificates[0].match"},
		"no expression":        {"identities: {certificates: [{match: '^(', user: '$1'}]}", "certificates[0].match"},
		"no such part":         {"identities: {certificates: [{match: '^/CN=(.*)$', user: '$2'}]}", "certificates[0].user"},
		"a part run together":  {"identities: {certificates: [{match: '^/CN=(.*)$', user: '$1x'}]}", "certificates[0].user"},
		"nobody meant":         {"identities: {certificates: [{match: '^/CN=(.*)$', user: ''}]}", "certificates[0].user"},
		"no trust":             {"identities: {certificates: [{match: '^/CN=(.*)$', user: '$1'}]}", "credentials.x509.trust"},
		"no such issuer":       {"identities: {subjects: [{issuer: wlcg, match: '^(.*)$', user: '$1'}]}", "subjects[0].issuer"},
		"no such realm":        {"users: {accounts: nss}\nidentities: {accounts: [{realm: desy, match: '^(.*)$', account: '$1'}]}", "accounts[0].realm"},
		"accounts by number":   {"identities: {accounts: [{match: '^(.*)$', account: '$1'}]}", "identities.accounts"},
		"a grid-mapfile":       {"credentials: {x509: {trust: " + dir + "}}\nidentities: {gridmap: " + gridmap + "}", ""},
		"none of it":           {"credentials: {x509: {trust: " + dir + "}}\nidentities: {gridmap: /nowhere}", "identities.gridmap"},
		"another file":         {"credentials: {x509: {trust: " + dir + "}}\nidentities: {gridmap: " + file("bad", "\"/CN=x\n") + "}", "line 1"},
	} {
		c, err := Parse([]byte(tc.yaml))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.Hubs = []Hub{{Name: "main"}}
		var p problems
		c.checkUsers(&p)
		c.checkIdentities(&p)
		var all []string
		for _, err := range p {
			all = append(all, err.Error())
		}
		if said := strings.Join(all, "\n"); (said == "") != (tc.says == "") || !strings.Contains(said, tc.says) {
			t.Errorf("%s: %q, want %q", name, said, tc.says)
		}
	}
}
