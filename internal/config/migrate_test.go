package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestMigrateOldFiles takes files as they were before keys were renamed: the example of all keys, and the demo's.
func TestMigrateOldFiles(t *testing.T) {
	for _, name := range []string{"example", "demo"} {
		old, err := os.ReadFile(filepath.Join("testdata/migrate", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(old); err == nil || !strings.Contains(err.Error(), "slipway config migrate FILE --write") {
			t.Errorf("%s is taken as it is: %v", name, err)
		}
		migrated, changes, err := Migrate(old, name)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata/migrate", name+".migrated.yaml"), string(migrated))
		var said strings.Builder
		for _, c := range changes {
			fmt.Fprintf(&said, "%d: %s\n", c.Line, c.What)
		}
		golden(t, filepath.Join("testdata/migrate", name+".changes"), said.String())
		if _, err := Parse(migrated); err != nil {
			t.Errorf("%s, migrated: %v", name, err)
		}
		again, changes, err := Migrate(migrated, name)
		if err != nil || len(changes) > 0 || string(again) != string(migrated) {
			t.Errorf("%s: a second round changes %v, %v", name, changes, err)
		}
	}
}

// TestMigratedExampleMeansTheDefaults: what the example said before is what holds now.
func TestMigratedExampleMeansTheDefaults(t *testing.T) {
	old, err := os.ReadFile("testdata/migrate/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	migrated, _, err := Migrate(old, "")
	if err != nil {
		t.Fatal(err)
	}
	was, err := Parse(migrated)
	if err != nil {
		t.Fatal(err)
	}
	is, err := Parse([]byte(Example()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(is, was); diff != "" {
		t.Error(diff)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update writes it anew): %s", file, diff)
	}
}

func TestMigrate(t *testing.T) {
	for name, tt := range map[string]struct{ old, want string }{
		"nothing to do":    {"listen: a:1 # mine\n", "listen: a:1 # mine\n"},
		"no end of line":   {"docker: {instance: x}", "docker: {}\ninstance: x\n"},
		"quoted keys":      {"docker: {\"cpus\": 1, 'memory': 2G}\n", "docker: {\"max_total_cpus\": 1, 'max_total_memory': 2G}\n"},
		"the only one":     {"gpu:\n  sample: 5s\n", "gpu:\n"},
		"in braces, first": {"gpu: {sample: 5s, driver: none}\n", "gpu: {driver: none}\n"},
		"in braces, last":  {"gpu: {driver: none, mps: {control: 'a, }b', dir: /x}}\n", "gpu: {driver: none}\n"},
		"in braces, alone": {"docker: { instance: it's }\n", "docker: {}\ninstance: it's\n"},
		"in braces, both":  {"gpu: {driver: none, sample: 5s, idle_after: 1m}\n", "gpu: {driver: none}\n"},
		"in braces, all":   {"gpu: {sample: 5s, idle_after: 1m}\n", "gpu: {}\n"},
		"renamed, then gone": {
			"hubs:\n- {name: a, roster: {mode: stop, every: 1m, age: 2m}}\n",
			"hubs:\n- {name: a, unknown_sessions: {action: stop}}\n",
		},
		"JSON":           {`{"docker": {"instance": "x", "cpus": 2}}`, `{"docker": {"max_total_cpus": 2}, instance: "x"}`},
		"over two lines": {"gpu: {driver: none,\n  sample: 5s}\n", "gpu: {driver: none}\n"},
		"its comments": {
			"gpu:\n  # none or nvml\n  driver: none\n\n  # how often\n  # it is measured\n  sample: 5s # s\n  # and\n  self_test: true\n",
			"gpu:\n  # none or nvml\n  driver: none\n\n  # and\n  self_test: true\n",
		},
		"the first of an item": {
			"profiles:\n  - busy_cpu: 0.1\n    name: a\n  - name: b\n    busy_cpu: 1\n\n# images\nimages: []\n",
			"profiles:\n  - name: a\n  - name: b\n\n# images\nimages: []\n",
		},
		"moved": {
			"environments:\n  # who is in what\n  groups:\n    higgs: [alice]\n    top:\n    - bob # too\n  site: x\nlisten: a:1\n",
			"environments:\n  site: x\nlisten: a:1\n# who is in what\ngroups:\n  higgs: [alice]\n  top:\n  - bob # too\n",
		},
		"moved and renamed": {
			"environments: {hub_groups: {use: false, join: {a: ['m:b']}}, keep: 1h}\n",
			"environments: {retention: 1h}\nhub_groups: {enabled: false, join: {a: ['m:b']}}\n",
		},
		"behind other letters": {"images:\n  - {name: \"ü\", title: \"größer\", ref: a}\n", "images:\n  - {name: \"ü\", display_name: \"größer\", ref: a}\n"},
		"written once":         {"jobs: {limits: [&a {running: 1}, *a]}\n", "jobs: {limits: [&a {max_running: 1}, *a]}\n"},
		"Windows":              {"local:\r\n  at_once: 3\r\n  cgroup: x\r\n", "local:\r\n  max_jobs: 3\r\n"},
	} {
		got, changes, err := Migrate([]byte(tt.old), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(got) != tt.want || len(changes) == 0 != (tt.old == tt.want) {
			t.Errorf("%s: %q, want %q; %v", name, got, tt.want, changes)
		}
	}
}

func TestMigrateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "f: there is nothing in it",
		"a: [\n":                             "f, line 2: this is no YAML",
		"local: {at_once: 2}\nlisen: x\n":    "f, line 2: unknown field \"lisen\"",
		"local: {at_once: 2, max_jobs: 3}\n": "f, migrated, line 1: \"max_jobs\" stands here for the second time",
		"local: {at_once: many}\n":           "f, migrated, line 1: \"many\" is not a whole number",
		"jobs:\n  \"ke\\x65p\": 1h\n":        "f, line 2: jobs.keep is jobs.retention now",
		"instance: a\ndocker: {instance: b}": "f, migrated, line 3: \"instance\" stands here for the second time",
	} {
		got, changes, err := Migrate([]byte(text), "f")
		if err == nil || !strings.HasPrefix(err.Error(), want) || got != nil || changes != nil {
			t.Errorf("%q: %q, %v, %v, want %q", text, got, changes, err, want)
		}
	}
}

// TestEachRenaming writes each old key alone, as a mapping in braces and as one without, and wants its new name known.
func TestEachRenaming(t *testing.T) {
	for _, r := range renamings {
		block, flow := nested(r.old)
		for _, text := range []string{block, flow} {
			_, err := Parse([]byte(text))
			if err == nil || !strings.Contains(err.Error(), " now") && !strings.Contains(err.Error(), "no key any more") {
				t.Errorf("%s: %v", text, err)
			}
			if _, changes, err := Migrate([]byte(text), "f"); err != nil || len(changes) == 0 {
				t.Errorf("%s: %v, %v", text, changes, err)
			}
		}
	}
}

// nested returns the text of a file with one key.
func nested(path string) (block, flow string) {
	indent, end := "", ""
	for word := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(word, "[]")
		block += indent + name + ":\n"
		flow, end = flow+"{"+name+": ", "}"+end
		if indent = strings.ReplaceAll(indent, "-", " ") + "  "; list {
			indent, flow, end = indent+"- ", flow+"[", "]"+end
		}
	}
	return block, flow + end
}

func FuzzMigrate(f *testing.F) {
	f.Add([]byte("docker: {cpus: 1, instance: x}\nenvironments:\n  keep: 1h\n  groups: {a: [b]}\n"))
	f.Add([]byte("gpu: {driver: none,\n  sample: '5s', mps: {dir: \"/x\"}} # }\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		migrated, _, err := Migrate(text, "f")
		if err != nil {
			return
		}
		if again, changes, err := Migrate(migrated, "f"); err != nil || len(changes) > 0 || string(again) != string(migrated) {
			t.Errorf("%q becomes %q, and that %q: %v, %v", text, migrated, again, changes, err)
		}
	})
}
