package environments

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/images/registry/registrytest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
	"slipway/spawner"
)

// TestExportedEnvironments: the SIF runs, and the tar is an image by the environment's name.
func TestExportedEnvironments(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Apptainer)
	d := newBlobStore(t)
	d.freeze("alice", "ana", "v1", "exported")
	f := d.environments()
	for name, c := range map[string]spawner.Caller{"another user": userOf("bob"), "a job": {User: "alice", Workload: "j-1"}} {
		if _, err := f.Export(t.Context(), c, "alice/ana:v1", hubapi.ExportSIF); !errs.Is(err, errs.NotFound) && !errs.Is(err, errs.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, err := f.Export(t.Context(), userOf("alice"), "ana:v1", hubapi.ExportSIF)
	d.must(err)
	data, err := io.ReadAll(e.Content)
	dir := t.TempDir()
	d.must(err, e.Content.Close(), os.WriteFile(filepath.Join(dir, "ana.sif"), data, 0o644))
	if out := registrytest.Apptainer(t, dir, nil, "exec", "ana.sif", "cat", "/greeting"); out != "exported" {
		t.Errorf("it says %q", out)
	}
	e, err = f.Export(t.Context(), userOf("alice"), "ana:v1", hubapi.ExportOCI)
	d.must(err)
	var out bytes.Buffer
	d.must(e.Write(t.Context(), &out))
	for in := tar.NewReader(&out); ; {
		h, err := in.Next()
		if d.must(err); h.Name == "manifest.json" {
			text, err := io.ReadAll(in)
			if d.must(err); !strings.Contains(string(text), "slipway/ana:v1") {
				t.Errorf("it is called %s", text)
			}
			return
		}
	}
}
