package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestExampleShowsTheDefaults(t *testing.T) {
	c, err := Parse([]byte(Example()))
	if err != nil {
		t.Fatal(err)
	}
	got, want := c, Default()
	got.Hubs, got.Images, got.Profiles = nil, nil, nil
	got.Environments.Strip, got.Groups, got.Jobs.GPUs, got.Jobs.Limits, got.GPU.Simulated, got.GPU.Sharing, got.GPU.Devices[0].Layout = nil, nil, nil, nil, nil, nil, nil // not empty
	got.Environments.Quotas, got.HubGroups.Join = Quotas{}, nil
	got.Environments.Stores, got.Environments.Exports, got.HTCondor.Extra = nil, nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the example says\n%+v, the defaults are\n%+v", got, want)
	}
	if len(c.Hubs) != 1 || len(c.Images) != 1 || len(c.Profiles) != 1 {
		t.Errorf("the example lacks something: %+v", c)
	}
}

func TestMistakesNameTheirPlace(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "listen: 127.0.0.1:1\nlisten_on: x\n", []string{"listen_on", "2:"}},
		{"unknown key below", "docker:\n  sockets: x\n", []string{"sockets", "2:"}},
		{"wrong type", "local:\n  max_jobs: many\n", []string{"2:"}},
		{"not a size", "jobs: {max_memory: much}\n", []string{"much", "512M"}},
		{"not a time", "jobs: {max_time: 3 days}\n", []string{"90m"}},
		{"not a range", "users: {uids: 20000}\n", []string{"20000-59999"}},
		{"not YAML", "a: [\n", []string{"line 2", "no YAML"}},
		{"a key twice", "listen: a\nlisten: b\n", []string{"listen"}},
		{"unknown key of a hub", "hubs:\n  - name: a\n    tokn_file: x\n", []string{"tokn_file", "3:"}},
		{"unknown key of a profile", "profiles:\n  - name: a\n    idle: 2h\n", []string{"idle", "3:"}},
		{"wrong time of a profile", "profiles:\n  - name: a\n    idle_limit: long\n", []string{"long", "3:"}},
	}
	for _, tt := range tests {
		_, err := Parse([]byte(tt.text))
		if err == nil {
			t.Errorf("%s: accepted", tt.name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", tt.name, err, want)
			}
		}
	}
}

func TestCheckFindsEverythingAtOnce(t *testing.T) {
	c, err := Parse([]byte("listen: nowhere\ndata_dir: relative\nusers: {uids: 5-2, gid: 0}\nlocal: {max_jobs: 0}\nhubs: [{name: a, api_url: ftp://x, service: s, spawner_token_file: /nonexistent}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Check()
	for _, want := range []string{"listen", "data_dir", "users.uids", "users.gid", "local.max_jobs", "hubs[0].api_url", "hubs[0].spawner_token_file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestPortsAreWithinBounds(t *testing.T) {
	for text, want := range map[string]string{
		"listen: 127.0.0.1:99999":                                                   "listen",
		"listen: '127.0.0.1:-1'":                                                    "listen",
		"ssh: {listen: ':99999', host: h}":                                          "ssh.listen",
		"uplink: {url: 'https://h:99999'}":                                          "uplink.url",
		"hubs: [{name: a, listen: '127.0.0.1:65536'}]":                              "hubs[0].listen",
		"hubs: [{name: a, api_url: 'http://h:65536/hub/api'}]":                      "hubs[0].api_url",
		"hubs: [{name: a, outpost: {address: 'h:0'}}]":                              "hubs[0].outpost.address",
		"data: {storage: [{name: a, origin: 'root://h:70000', path: /a}]}":          "data.storage[0].origin",
		"credentials: {issuers: [{name: a, issuer: 'https://h:70000'}]}":            "credentials.issuers[0].issuer",
		"environments: {stores: [{name: a, s3: {endpoint: 'h:70000', bucket: b}}]}": "endpoint",
	} {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Error(err)
		} else if err := c.Check(); err == nil || !strings.Contains(err.Error(), want+": ") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, address := range []string{":8090", "127.0.0.1:0", "[::1]:65535"} {
		if !listenable(address) {
			t.Errorf("%s is refused", address)
		}
	}
}

func TestAnEmptyFileSaysSo(t *testing.T) {
	for _, text := range []string{"", "# only this\n", "---\n"} {
		if _, err := Read([]byte(text), "a.yaml"); err == nil || !strings.HasPrefix(err.Error(), "a.yaml: there is nothing in it: `slipway config example`") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLimits(t *testing.T) {
	tests := []struct{ text, want string }{
		{"jobs: {default_cpus: 3}", "jobs.default_cpus"},
		{"jobs: {default_cpus: 0}", "jobs.default_cpus"},
		{"jobs: {max_memory: 1G}", `jobs.default_memory: "2G" is not valid: more than 0 and at most jobs.max_memory`},
		{"jobs: {default_time: 48h}", "jobs.default_time"},
		{"jobs: {max_time: 0s}", "jobs.default_time"},
		{"docker: {max_total_cpus: -1}", "docker.max_total_cpus"},
		{"users: {uids: 60000-70000}", "users.uids"},
		{"users: {uids: 999-2000}", "users.uids"},
	}
	for _, tt := range tests {
		c, err := Parse([]byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
	if err := Default().Check(); err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "hubs") {
		t.Errorf("the defaults lack %v, want hubs alone", err)
	}
}

func TestHubs(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(strings.Repeat("p", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := func(name, more string) string {
		return "  - {name: " + name + ", api_url: 'http://" + strings.ToLower(strings.ReplaceAll(name, "/", "")) + "/hub/api', service: slipway, spawner_token_file: " + password + more + "}\n"
	}
	elsewhere := func(name, more string) string { // with a base path and a token of its own
		token := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(token, []byte(strings.Repeat(name, 32)), 0o600); err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(hub(name, more), "/hub/api", "/"+name+"/hub/api", 1)
		return strings.Replace(text, "spawner_token_file: "+password, "spawner_token_file: "+token, 1)
	}
	tests := []struct{ text, want string }{
		{hub("a", ""), ""},
		{hub("a", "") + hub("b", ""), "hubs[1].realm"},
		{hub("a", ", realm: site") + hub("b", ", realm: desy, listen: '127.0.0.1:8091'"), ""},
		{hub("a", ", realm: site") + hub("b", ", realm: desy"), "hubs[1].listen"},
		{hub("a", ", realm: site") + elsewhere("b", ", realm: site"), ""},
		{hub("a", ", realm: site") + elsewhere("b", ", realm: desy"), "whose tokens this hub would be shown"},
		{hub("a", ", realm: site") + elsewhere("b", ", realm: desy, listen: '127.0.0.1:8091'"), ""},
		{hub("a", ", realm: site") + elsewhere("b", ", realm: desy, listen: '127.0.0.1:8091'") + hub("c", ", realm: x, listen: '127.0.0.1:8091'"), "hubs[2].listen"},
		{hub("a", ", realm: site") + strings.Replace(hub("b", ", realm: site"), "/hub/api", "/b/hub/api", 1), "hubs[1].spawner_token_file"},
		{strings.Replace(hub("a", ""), "http://a/", "http://me:geheim@a/", 1), "hubs[0].api_url"},
		{hub("a", ", token_file: "+password+", outpost: {flavors_url: 'http://me:geheim@h/x'}"), "hubs[0].outpost.flavors_url"},
		{hub("a", ", realm: site") + strings.Replace(hub("b", ", realm: site, listen: '127.0.0.1:8091'"), "http://b/", "http://a/", 1), "hubs[1].api_url"},
		{hub("a", ", listen: here"), "hubs[0].listen"},
		{hub("a", ", listen: '127.0.0.1:8090'"), "hubs[0].listen"},
		{hub("a", ", realm: site") + hub("a", ", realm: desy"), "hubs[1].name"},
		{hub("A/b", ""), "hubs[0].name"},
		{hub("a", ", realm: 'x y'"), "hubs[0].realm"},
		{hub("a", ", ca_file: "+password), "hubs[0].ca_file"},
		{hub("a", ", token_file: /nonexistent"), "hubs[0].token_file"},
		{hub("a", ", unknown_sessions: {action: kill}"), "hubs[0].unknown_sessions.action"},
		{hub("a", ", outpost: {credentials: [{username: 'a:b', password_file: "+password+"}]}"), "hubs[0].outpost.credentials[0].username"},
		{hub("a", ", outpost: {credentials: [{username: a, password_file: /nonexistent}]}"), "hubs[0].outpost.credentials[0].password_file"},
		{hub("a", ", outpost: {address: '[::1]:80'}"), "hubs[0].outpost.address"},
		{hub("a", ", outpost: {flavors_url: 'http://h/x'}"), "hubs[0].outpost.flavors_url"},
		{"  - {name: a, api_url: 'http://h/hub/api', service: slipway}\n", "hubs[0].spawner_token_file"},
	}
	for _, tt := range tests {
		c, err := Parse([]byte("hubs:\n" + tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		err = c.Check()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: the error shows a password: %v", tt.text, err)
		}
	}
}

func TestPagesPrefix(t *testing.T) {
	for api, want := range map[string]string{"http://h:8081/hub/api": "/services/slipway/", "http://h/jhub/hub/api/": "/jhub/services/slipway/"} {
		if got := (Hub{APIURL: api, Service: "slipway", TokenFile: "x"}).PagesPrefix(); got != want {
			t.Errorf("%q: %q, want %q", api, got, want)
		}
		if got := (Hub{APIURL: api, Service: "slipway"}).PagesPrefix(); got != "" {
			t.Errorf("without a token: %q", got)
		}
	}
}

func TestProfileDefaults(t *testing.T) {
	c, err := Parse([]byte("profiles: [{name: a}, {name: b, first_connect: 0s, idle_limit: 1m, max_age: -1s}]"))
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Profiles[0]; time.Duration(a.FirstConnect) != 20*time.Minute || a.IdleLimit != 0 {
		t.Errorf("%+v", a)
	}
	if c.Profiles[1].FirstConnect != 0 {
		t.Errorf("%+v", c.Profiles[1])
	}
	for _, want := range []string{"profiles[1].idle_limit", "profiles[1].max_age"} {
		if err := c.Check(); !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	h := Hub{Name: "main", SpawnerTokenFile: path}
	for _, tt := range [][2]string{{"short", "at least 24"}, {strings.Repeat("x", 32) + "\n", ""}} {
		text, want := tt[0], tt[1]
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := checkSecretFile(path); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if token, err := h.SpawnerToken(); err != nil || token.Reveal() != strings.Repeat("x", 32) {
		t.Errorf("token of %d characters, %v", len(token.Reveal()), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := checkSecretFile(path); !strings.Contains(got, "chmod 600") {
		t.Errorf("readable for all: %q", got)
	}
}

func TestKeyThatEverybodyCanRead(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pem")
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o604: true} {
		if err := errors.Join(os.WriteFile(key, nil, 0o600), os.Chmod(key, mode)); err != nil {
			t.Fatal(err)
		}
		c := Default()
		c.TLS = TLS{Cert: key, Key: key}
		if err := c.Check(); strings.Contains(err.Error(), "tls.key") != refused {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(Example()))
	f.Add([]byte("users: {uids: 1-2}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		if c.Users.UIDs.First < 0 || c.Docker.MaxTotalMemory < 0 {
			t.Errorf("a negative number got through: %+v", c)
		}
		_ = c.Check() // must not panic
	})
}

func TestWhoAProfileIsOpenTo(t *testing.T) {
	const text = "profiles: [{name: a, allowed_groups: [higgs], allowed_users: [bob, '@desy/eve']}, {name: b, allowed_groups: [higs, 'main:x'], allowed_users: ['']}]\ngroups: {higgs: [alice]}\n"
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var found problems
	c.checkProfiles(&found)
	got := strings.Join(texts(found), "\n")
	for _, want := range []string{`profiles[1].allowed_users[0]`, `profiles[1].allowed_groups[0]: "higs"`, `profiles[1].allowed_groups[1]: "main:x"`} {
		if !strings.Contains(got, want) {
			t.Errorf("not found: %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "profiles[0]") {
		t.Error(got)
	}
}

func TestLocalJobs(t *testing.T) {
	for text, want := range map[string]string{
		"network: outward": "", "network: none": "", "network: host": "", "network: bridge": "local.network", "network: ''": "local.network",
		"max_disk: none": "", "max_disk: 10G": "", "max_disk: 1000": "local.max_disk", "reach: ['localhost:3128']": "", "reach: [localhost]": "local.reach[0]", "reach: [':80']": "local.reach[0]",
	} {
		c, err := Parse([]byte("local: {" + text + "}\n"))
		if err == nil {
			err = c.Check()
		}
		if found := err != nil && strings.Contains(err.Error(), "local."); found != (want != "") || found && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
