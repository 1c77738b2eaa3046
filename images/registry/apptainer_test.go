package registry_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"slipway/images/oci"
	"slipway/images/registry/registrytest"
)

// TestApptainer lets the real one run and pull an environment with a job's credential, given in each way that it knows.
func TestApptainer(t *testing.T) {
	sif := registrytest.SIF(t, "from the environment")
	m, document, _ := content()
	m.Tag("v1", runtime.GOARCH, document, sif)
	index, err := oci.Parse(m.Documents[m.Names["v1"]].Data)
	if err != nil {
		t.Fatal(err)
	}
	own := index.Images()[0]
	foreign := oci.Image{Architecture: "a64fx", Environment: own.Environment, SIF: &own.Environment} // Apptainer would fail on it
	m.Document(oci.Index([]oci.Image{own, foreign}), "both")
	host := registrytest.Serve(t, registrytest.Handler(t, token, map[string]*registrytest.Memory{"alice/ana": m, "": m}))
	file := filepath.Join(t.TempDir(), "docker-config.json")
	auth := base64.StdEncoding.EncodeToString([]byte("job:" + token))
	if err := os.WriteFile(file, []byte(`{"auths":{"`+host+`":{"auth":"`+auth+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"APPTAINER_DOCKER_USERNAME=job", "APPTAINER_DOCKER_PASSWORD=" + token}
	dir := t.TempDir()
	for _, ref := range []string{":v1", ":both", "@" + own.SIF.Digest.String()} {
		out := registrytest.Apptainer(t, dir, env, "exec", "--no-https", "oras://"+host+"/alice/ana"+ref, "cat", "/greeting")
		if out != "from the environment" {
			t.Errorf("%s says %q", ref, out)
		}
	}
	registrytest.Apptainer(t, dir, nil, "pull", "--no-https", "--authfile", file, "pulled.sif", "oras://"+host+"/alice/ana:v1")
	if got, err := os.ReadFile(filepath.Join(dir, "pulled.sif")); err != nil || !bytes.Equal(got, sif) {
		t.Errorf("what is pulled has %d bytes, not those %d: %v", len(got), len(sif), err)
	}
	registrytest.Apptainer(t, dir, nil, "pull", "other.sif", "http://job:"+token+"@"+host+"/sif/alice/ana/v1.sif")
	for name, env := range map[string][]string{"UNAUTHORIZED": nil, "DENIED": {"APPTAINER_DOCKER_USERNAME=job", "APPTAINER_DOCKER_PASSWORD=guessed"}} {
		out, err := registrytest.TryApptainer(t, dir, env, "exec", "--no-https", "oras://"+host+"/alice/ana:v1", "cat", "/greeting")
		if err == nil || !strings.Contains(out, name) {
			t.Errorf("with %q: %v, %s", env, err, out)
		}
	}
}
