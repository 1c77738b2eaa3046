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

// edits are what a new backend changes outside of its own directory, as deploy/docs/book/develop/backend.md says: a text
// of each file, and what is added behind it.
var edits = map[string][][2]string{
	"internal/config/backends.go":     {{"		{Name: BackendLocal, Jobs: true},\n", "		{Name: \"dummy\", Jobs: true},\n"}},
	"internal/service/backends.go":    {{"import ", "(\n\"slipway/spawner/dummy\"\n)\nimport "}, {"{s.docker, s.local", ", dummy.New()"}},
	"internal/archtest/rules_test.go": {{"	return map[string]rule{\n", "		\"spawner/dummy\": {own: []string{\"spawner\"}},\n"}},
}

// TestANewBackend adds a backend to the tree by an overlay: with at most four other files changed, the service is built
// with it and it passes the suite.
func TestANewBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a part of the tree")
	}
	if len(edits) > 4 {
		t.Errorf("a new backend changes %d files outside of its own directory", len(edits))
	}
	root, err := filepath.Abs("../..")
	noError(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, additions := range edits {
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
	for _, name := range []string{"dummy.go", "dummy_test.go"} {
		overlay.Replace[filepath.Join(root, "spawner/dummy", name)] = filepath.Join(root, "spawner/spawnertest/testdata/dummy", name)
	}
	list := filepath.Join(t.TempDir(), "overlay.json")
	text, err := json.Marshal(overlay)
	noError(t, errors.Join(err, os.WriteFile(list, text, 0o600)))
	program := filepath.Join(t.TempDir(), "dummy.test")
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
	run(root, "go", "test", "-c", "-vet=off", "-o", program, "-overlay", list, "./spawner/dummy") // its directory is not there to test in
	run(t.TempDir(), program)
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
