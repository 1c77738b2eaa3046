package docker

import (
	"path/filepath"
	"strings"
	"testing"

	"slipway/spawner"
)

func TestCheckSources(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "gone")
	err := checkSources([]Mount{{Source: missing, Target: "/x"}})
	if err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("checkSources(missing) = %v", err)
	}
	err = checkSources([]Mount{{Source: missing, Target: "/x", Propagation: "rslave"}})
	if err == nil || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), "create or mount it") {
		t.Errorf("checkSources(missing, rslave) = %v", err)
	}
	if err := checkSources([]Mount{{Source: t.TempDir(), Target: "/x", ReadOnly: true}}); err != nil {
		t.Errorf("checkSources(plain) = %v", err)
	}
}

// TestAreasAreNotTouched: they were found by who may wait for them; since then their file system may have fallen
// silent.
func TestAreasAreNotTouched(t *testing.T) {
	b := &Backend{cfg: Config{Mounts: []Mount{{Source: t.TempDir(), Target: "/x"}}}, accounts: map[string]imageAccounts{"image": {}}}
	l := spawner.Launch{Dir: t.TempDir(), Areas: []spawner.Area{{Name: "scratch", Source: filepath.Join(t.TempDir(), "silent"), Target: "/scratch"}}}
	if err := b.ready(t.Context(), l, "image"); err != nil {
		t.Errorf("ready: %v", err)
	}
}
