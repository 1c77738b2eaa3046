package spawnertest_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// edits are what a backend changes outside of its own directory, as deploy/docs/book/develop/backend.md says: a text of
// each file, and what is added behind it.
type edits map[string][][2]string

var ofThisHost = edits{
	"internal/config/backends.go":     {{"		{Name: BackendLocal, Jobs: true},\n", "		{Name: \"dummy\", Jobs: true},\n"}},
	"internal/service/backends.go":    {{"import ", "(\n\"slipway/spawner/dummy\"\n)\nimport "}, {"{s.docker, s.local", ", dummy.New()"}},
	"internal/archtest/rules_test.go": {{"	return map[string]rule{\n", "		\"spawner/dummy\": {own: []string{\"spawner\"}},\n"}},
}

// A batch system's backend is package batch's: its own directory has what implements batch.System. What differs from
// another's nodes and limits is its row's.
var ofBatchSystem = edits{
	"internal/config/backends.go": {{
		"		{Name: BackendLocal, Jobs: true},\n",
		"		{\n			Name: \"dummybatch\", Sessions: true, Jobs: true, System: \"Dummy\",\n" +
			"			Batch: func(c Config) Batch {\n" +
			"				b := c.DummyBatch\n				b.Binds, b.MaxCPUs = []string{\"/dummy\"}, 3\n				return b\n			},\n		},\n",
	}},
	"internal/config/config.go": {{
		"	HTCondor       HTCondor            `yaml:\"htcondor\"`\n",
		"	DummyBatch Batch `yaml:\"dummybatch\"`\n",
	}},
	"internal/service/backends.go": {
		{"	\"slipway/internal/service/backends\"\n", "	\"slipway/spawner/dummybatch\"\n"},
		{
			"host.Slurm,\n",
			"		func() (*batch.Backend, error) {\n			return dummybatch.New(host.Config.DataDir, host.Key(\"dummybatch mark\"), host.Log)\n		},\n",
		},
	},
	"internal/archtest/rules_test.go": {{
		"	return map[string]rule{\n", "		\"spawner/dummybatch\": {own: []string{\"spawner\", \"spawner/batch\"}},\n",
	}},
}

// TestANewBackend adds two backends to the tree by an overlay, one of this host and one of a batch system: with at most
// four other files changed for each, the service is built with them and they pass the suite.
func TestANewBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a part of the tree")
	}
	all := edits{}
	for name, e := range map[string]edits{"dummy": ofThisHost, "dummybatch": ofBatchSystem} {
		if len(e) > 4 {
			t.Errorf("%s changes %d files outside of its own directory", name, len(e))
		}
		for file, additions := range e {
			all[file] = append(all[file], additions...)
		}
	}
	root, err := filepath.Abs("../..")
	noError(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, additions := range all {
		text, err := os.ReadFile(filepath.Join(root, name))
		noError(t, err)
		changed := string(text)
		for _, a := range additions {
			if strings.Count(changed, a[0]) != 1 {
				t.Fatalf("%s has %q %d times", name, a[0], strings.Count(changed, a[0]))
			}
			changed = strings.Replace(changed, a[0], a[0]+a[1], 1)
		}
		at := filepath.Join(t.TempDir(), filepath.Base(name))
		noError(t, os.WriteFile(at, []byte(changed), 0o600))
		overlay.Replace[filepath.Join(root, name)] = at
	}
	for _, name := range []string{"dummy/dummy.go", "dummy/dummy_test.go", "dummybatch/dummybatch.go", "dummybatch/dummybatch_test.go"} {
		overlay.Replace[filepath.Join(root, "spawner", name)] = filepath.Join(root, "spawner/spawnertest/testdata", name)
	}
	list := filepath.Join(t.TempDir(), "overlay.json")
	text, err := json.Marshal(overlay)
	noError(t, errors.Join(err, os.WriteFile(list, text, 0o600)))
	run := func(dir, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	run(root, "go", "build", "-overlay", list, "./internal/service")
	run(root, "go", "vet", "-overlay", list, "./internal/archtest")
	for _, name := range []string{"dummy", "dummybatch"} {
		program := filepath.Join(t.TempDir(), name+".test")
		run(root, "go", "test", "-c", "-vet=off", "-o", program, "-overlay", list, "./spawner/"+name) // its directory is not there to test in
		run(t.TempDir(), program)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
