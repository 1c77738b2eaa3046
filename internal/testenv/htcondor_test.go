package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTreeDigest holds it to the shell's, which names the image when it is built.
func TestTreeDigest(t *testing.T) {
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"b": "2", "a b": "1", "Z/c": "3", "Z.d": "4", "empty": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tree := range []string{dir, filepath.Join(root, "deploy/images/htcondor")} {
		got, err := treeDigest(os.DirFS(tree))
		if err != nil {
			t.Fatal(err)
		}
		shell := exec.Command("bash", "-c", `source "$1/deploy/lib/common.sh" && cd "$2" && hash_of .`, "bash", root, tree)
		want, err := shell.Output()
		if err != nil {
			t.Fatal(err)
		}
		if got != strings.TrimSpace(string(want)) {
			t.Errorf("the digest of %s is %s, and the shell's is %s", tree, got, want)
		}
	}
}
