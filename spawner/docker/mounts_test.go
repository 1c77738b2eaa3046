package docker

import (
	"path/filepath"
	"strings"
	"testing"
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
