package jobfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/spawner"
)

func TestInputText(t *testing.T) {
	s := &Store{cfg: Config{Dir: filepath.Join(t.TempDir(), "workloads")}}
	w := spawner.Workload{ID: "j-1"}
	w.Bundle = "j-1"
	if err := os.MkdirAll(s.InputDir(w), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"code.py": "print(1)\n", "large.py": strings.Repeat("#", 101), "data.bin": "a\x00b", "latin.py": "# \xe9",
	} {
		if err := os.WriteFile(filepath.Join(s.InputDir(w), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"code.py": "print(1)\n", "large.py": "", "data.bin": "", "latin.py": ""} {
		if got, err := s.InputText(w, name, 100); err != nil || got != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if _, err := s.InputText(w, "none.py", 100); err == nil {
		t.Error("a file that is not there is read")
	}
}
