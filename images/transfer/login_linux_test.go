package transfer

import (
	"os"
	"path/filepath"
	"testing"

	"slipway/internal/errs"
)

func TestAddLogin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "login.json")
	for _, password := range []string{"first", "second"} {
		if err := AddLogin(path, "here.example:8090", "job", password); err != nil {
			t.Fatal(err)
		}
		if c, err := DockerConfig(path)(t.Context(), "here.example:8090"); err != nil || c.Password.Reveal() != password {
			t.Errorf("%v", err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, empty := range []string{"null", `{"auths":null}`} {
		if err := os.WriteFile(path, []byte(empty), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := AddLogin(path, "here.example", "job", "p"); err != nil {
			t.Errorf("%s: %v", empty, err)
		}
	}
	for _, bad := range []string{"{", `{"auths":[]}`, "null x"} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := AddLogin(path, "here.example", "job", "p"); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
		if text, _ := os.ReadFile(path); string(text) != bad {
			t.Errorf("%s was changed into %s", bad, text)
		}
	}
}
