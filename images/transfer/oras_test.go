package transfer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	spec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"

	"slipway/images/oci"
	"slipway/images/registry/registrytest"
)

// TestOrasWritesTheSIF pulls as `oras pull --platform` does: content becomes a file by its title alone.
func TestOrasWritesTheSIF(t *testing.T) {
	sif := bytes.Repeat([]byte("a SIF "), 1<<20)                                                   // more than what oras keeps without a title
	m, document := registrytest.New(), oci.Referrer(oci.Describe(oci.TypeManifest, nil), "x", nil) // any manifest will do
	m.Tag("v1", "amd64", document, sif)
	host := registrytest.Serve(t, registrytest.Handler(t, "", map[string]*registrytest.Memory{"alice/ana": m}))
	repo, err := remote.NewRepository(host + "/alice/ana")
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = true
	dir := t.TempDir()
	store, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	opts := oras.DefaultCopyOptions
	opts.WithTargetPlatform(&spec.Platform{OS: "linux", Architecture: "amd64"})
	if _, err := oras.Copy(t.Context(), repo, "v1", store, "v1", opts); err != nil {
		t.Fatal(err)
	}
	name := "environment-" + oci.Describe(oci.TypeManifest, document).Digest.Encoded()[:12] + ".sif"
	if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, sif) {
		list, _ := os.ReadDir(dir)
		t.Errorf("%v; there are %v", err, list)
	}
}
