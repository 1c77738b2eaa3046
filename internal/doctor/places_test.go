package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/config"
	"slipway/internal/testenv"
)

func TestDoctorLooksAtPlaces(t *testing.T) {
	dir := t.TempDir()
	vault, gone := filepath.Join(dir, "vault"), filepath.Join(dir, "gone")
	if err := os.Mkdir(vault, 0o755); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	results := map[string]string{}
	for _, c := range placeChecks(config.Environments{
		Stores: []config.EnvironmentStore{
			{Name: "vault", Directory: vault}, {Name: "gone", Directory: gone},
			{Name: "closed", S3: config.Bucket{Endpoint: "127.0.0.1:1", Bucket: "x", AccessKey: "k", SecretFile: key, AllowPlainHTTP: true}},
		},
		Exports: []config.EnvironmentExport{
			{Name: "out", Directory: vault}, {Name: "away", Directory: gone},
			{Name: "noprogram", Directory: vault, Begin: []string{"slipway-is-not-cvmfs"}, Publish: []string{"true"}},
		},
	}) {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
		f := Finding{Result: "ok"}
		if err := c.look(ctx); err != nil {
			f.Result = "warn"
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("it tells the secret: %v", err)
			}
		}
		cancel()
		results[c.name] = f.Result
	}
	for name, want := range map[string]string{
		"store vault": "ok", "store gone": "warn", "store closed": "warn", "export out": "ok", "export away": "warn", "export noprogram": "warn",
	} {
		if results[name] != want {
			t.Errorf("%s: %s, not %s", name, results[name], want)
		}
	}
	if left, _ := os.ReadDir(vault); len(left) > 0 {
		t.Errorf("the doctor left %v", left)
	}
}
