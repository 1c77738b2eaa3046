package batch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"slipway/internal/agent/control"
	"slipway/internal/worker"
	"slipway/spawner"
)

// TestFill: a sandbox is there whole, with nothing that others can read, or not at all.
func TestFill(t *testing.T) {
	dir, inputs := t.TempDir(), t.TempDir()
	noError(t, os.WriteFile(filepath.Join(inputs, "data.txt"), []byte("data"), 0o666))
	c := Contents{
		Launch: spawner.Launch{InputDir: inputs, Uplink: &control.Uplink{URL: "wss://s/"}, App: &control.App{Argv: []string{"true"}}},
		Plan:   worker.Plan{ID: "j-1"}, UID: os.Getuid(), GID: os.Getgid(), Sync: (*os.File).Sync,
	}
	box := Sandbox(filepath.Join(dir, "box"))
	c.Launch.Spec.Inputs = []string{"data.txt", "missing"}
	if err := box.Fill(c); err == nil {
		t.Error("an input file that is not there is left out")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	c.Launch.Spec.Inputs = []string{"data.txt"}
	noError(t, box.Fill(c))
	var files []string
	noError(t, filepath.WalkDir(string(box), func(name string, d fs.DirEntry, err error) error {
		info, err2 := os.Lstat(name)
		noError(t, err2)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", name, info.Mode())
		}
		if !d.IsDir() {
			rel, _ := filepath.Rel(string(box), name)
			files = append(files, rel)
		}
		return err
	}))
	want := []string{"inputs/data.txt", "link/app.json", "link/uplink.json", "plan.json"}
	if slices.Sort(files); !slices.Equal(files, want) {
		t.Errorf("it holds %q, want %q", files, want)
	}
}
