package transfer

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/images/registry/registrytest"
	"slipway/internal/errs"
)

// TestApptainerRunsWhatWasPushed also lets Apptainer push, to a registry that takes it and to the service's own.
func TestApptainerRunsWhatWasPushed(t *testing.T) {
	sif := registrytest.SIF(t, "shipped")
	_, host := serve(t, inMemory())
	c, _ := client(t, nil)
	want, env := environment(1, noise(50, 1000), 1000)
	want.sif, env.Architecture = sif, runtime.GOARCH
	env.SIF = want.file()
	if _, err := c.Push(context.Background(), reference(t, host, "alice/ana:v1"), env, nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out := registrytest.Apptainer(t, dir, nil, "exec", "--no-https", "oras://"+host+"/alice/ana:v1", "cat", "/greeting"); out != "shipped" {
		t.Errorf("exec says %q", out)
	}
	registrytest.Apptainer(t, dir, nil, "pull", "--no-https", "pulled.sif", "oras://"+host+"/alice/ana:v1")
	if !bytes.Equal(read(t, filepath.Join(dir, "pulled.sif")), sif) {
		t.Error("other bytes were pulled")
	}
	registrytest.Apptainer(t, dir, nil, "push", "--no-https", "pulled.sif", "oras://"+host+"/alice/own:v1")
	if _, err := c.Pull(context.Background(), reference(t, host, "alice/own:v1"), Into{Dir: dir}, nil); !errs.Is(err, errs.Invalid) {
		t.Errorf("a SIF of somebody's: %v", err)
	}
	_, readOnly := serve(t, own(t, want, env))
	if out, err := registrytest.TryApptainer(t, dir, nil, "push", "--no-https", "pulled.sif", "oras://"+readOnly+"/alice/ana:v2"); err == nil || !strings.Contains(out, "read-only") {
		t.Errorf("pushed to the service itself: %v, %s", err, out)
	}
}

func TestPushImage(t *testing.T) {
	made, err := random.Image(1<<20, 3)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: made})); err != nil {
		t.Fatal(err)
	}
	want, err := made.Digest()
	if err != nil {
		t.Fatal(err)
	}
	f, host := serve(t, inMemory(), &rule{match: "PATCH ", times: 1, harm: cutRequest(1000)})
	c, _ := client(t, func(cfg *Config) { cfg.Chunk = 256 << 10 })
	ctx, ref := context.Background(), reference(t, host, "alice/image:v1")
	if got, err := c.PushImage(ctx, ref, dir, nil); err != nil || got != want.String() {
		t.Fatalf("%s, %v; it is %s", got, err, want)
	}
	_, p := c.open(ctx, ref, nil)
	data, m, err := p.get(ctx, "v1")
	if err != nil || blob.Digest(data) != want.String() || len(m.Layers) != 3 {
		t.Errorf("%s, %v", data, err)
	}
	f.passed()
	if _, err := c.PushImage(ctx, ref, dir, nil); err != nil || f.passed() > 10000 {
		t.Errorf("the second time: %v", err)
	}
	name, _ := blob.Hex(want.String())
	path := filepath.Join(dir, "blobs", "sha256", name)
	if err := os.WriteFile(path, append(read(t, path), ' '), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PushImage(ctx, ref, dir, nil); !errs.Is(err, errs.Invalid) {
		t.Errorf("a changed manifest: %v", err)
	}
	nested := oci.Describe(oci.TypeIndex, []byte("x"))
	l := &image{dir: dir}
	if err := l.add(nil, oci.Manifest{MediaType: oci.TypeIndex, Manifests: []oci.Descriptor{nested}}, maxDepth+1); !errs.Is(err, errs.Invalid) {
		t.Errorf("nested for ever: %v", err)
	}
}
