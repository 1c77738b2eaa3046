package export

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"slipway/images/squashfs"
	"slipway/images/tree/treetest"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// kept writes a base's layer as a caller keeps it.
func (f *fixture) kept() (Layer, string) {
	f.t.Helper()
	layer, blob := layerOf(f.t, nil, f.base)
	must(f.t, os.WriteFile(f.at("base-layer"), blob, 0o600))
	return layer, f.at("base-layer")
}

func (f *fixture) image(env *squashfs.Image, name string) (OCIImage, string) {
	f.t.Helper()
	layer, blob := f.kept()
	dir := filepath.Join(f.t.TempDir(), "image")
	out, err := OCI(f.t.Context(), OCIConfig{
		Base: f.base, BaseLayer: layer, BaseBlob: blob, Env: env, Architecture: "amd64", Comment: "sha256:" + hexDigest, Names: []string{name},
		Run: v1.ImageConfig{
			Env: []string{"PATH=/usr/bin:/bin", "GREETING=it's \"$HOME\""}, Entrypoint: []string{"/bin/busybox"}, Cmd: []string{"cat", "/opt/large"}, WorkingDir: "/opt/x",
		},
		Annotations: map[string]string{"org.example": "a"},
	}, dir)
	must(f.t, err)
	return out, dir
}

func TestOCILayout(t *testing.T) {
	f := newFixture(t, nastyBase)
	env, _, want := f.env(nastyChanges)
	out, dir := f.image(env, "example.org/ana:v1")
	var index v1.Index
	decode(t, filepath.Join(dir, "index.json"), &index)
	if m := index.Manifests; len(m) != 1 || m[0].Digest != out.Manifest.Digest || m[0].Annotations[v1.AnnotationRefName] != "v1" || m[0].Platform.Architecture != "amd64" {
		t.Errorf("index %+v", index)
	}
	var manifest v1.Manifest
	decode(t, blobPath(dir, out.Manifest.Digest), &manifest)
	var config v1.Image
	decode(t, blobPath(dir, manifest.Config.Digest), &config)
	checkBlobs(t, dir, append(manifest.Layers, manifest.Config, out.Manifest))
	if len(manifest.Layers) != 2 || config.RootFS.DiffIDs[1] != out.Changes.DiffID || len(config.History) != 2 || config.Config.WorkingDir != "/opt/x" || config.Created.Unix() != int64(f.base.Super.ModTime) {
		t.Errorf("manifest %+v\nconfig %+v", manifest, config)
	}
	var blobs [][]byte
	for _, l := range manifest.Layers {
		b, err := os.ReadFile(blobPath(dir, l.Digest))
		must(t, err)
		blobs = append(blobs, b)
	}
	same(t, want, unstack(t, blobs...))
	again, other := f.image(parse(t, f.at("env")), "example.org/ana:v1")
	if d := cmp.Diff(out, again); d != "" || archived(t, dir) != archived(t, other) {
		t.Errorf("a second image differs: %s", d)
	}
}

func decode(t testing.TB, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err, json.Unmarshal(raw, into))
}

func blobPath(dir string, d digest.Digest) string {
	return filepath.Join(dir, "blobs", "sha256", d.Encoded())
}

// checkBlobs says whether the blobs are these, each as its descriptor says, and no others.
func checkBlobs(t testing.TB, dir string, want []v1.Descriptor) {
	t.Helper()
	for _, d := range want {
		b, err := os.ReadFile(blobPath(dir, d.Digest))
		if must(t, err); int64(len(b)) != d.Size || digest.FromBytes(b) != d.Digest {
			t.Errorf("blob of %d bytes for %+v", len(b), d)
		}
	}
	if list, err := os.ReadDir(blobPath(dir, "sha256:")); err != nil || len(list) != len(want) {
		t.Errorf("blobs %v, %v", list, err)
	}
}

func archived(t testing.TB, dir string) digest.Digest {
	t.Helper()
	var b bytes.Buffer
	must(t, Archive(t.Context(), dir, &b))
	var names []string
	for r := tar.NewReader(bytes.NewReader(b.Bytes())); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		names = append(names, h.Name)
	}
	if len(names) != 7 || !slices.Contains(names, "manifest.json") || !slices.Contains(names, "oci-layout") {
		t.Errorf("archive of %q", names)
	}
	return digest.FromBytes(b.Bytes())
}

func TestRefusedImageLeavesNothing(t *testing.T) {
	env := &squashfs.Image{Root: plan{"/a/.wh.x": stored(1, 0)}.tree()}
	dir := filepath.Join(t.TempDir(), "image")
	if _, err := OCI(t.Context(), OCIConfig{Env: env}, dir); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "/a/.wh.x") {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the directory is there")
	}
	must(t, os.Mkdir(dir, 0o755))
	if _, err := OCI(t.Context(), OCIConfig{Env: &squashfs.Image{Root: plan{}.tree()}}, dir); err == nil {
		t.Error("it wrote into a directory that was there")
	}
	if _, err := os.Lstat(dir); err != nil {
		t.Error("it removed a directory that was there")
	}
}

// TestDockerShowsTheEnvironment loads the image into the engine here and looks at what its storage driver made of it.
func TestDockerShowsTheEnvironment(t *testing.T) {
	testenv.Need(t, testenv.Docker, testenv.Busybox)
	busybox, err := exec.LookPath("busybox")
	must(t, err)
	program, err := os.ReadFile(busybox)
	must(t, err)
	f := newFixture(t, func(root string) error {
		must(t, nastyBase(root), write(filepath.Join(root, "bin/busybox"), string(program)))
		return os.Chmod(filepath.Join(root, "bin/busybox"), 0o755)
	})
	env, _, want := f.env(nastyChanges)
	name := fmt.Sprintf("slipway-test/render:%d", os.Getpid())
	out, dir := f.image(env, name)
	load(t, dir)
	t.Cleanup(func() { run(t, "docker", "image", "rm", name) })
	if id := strings.TrimSpace(run(t, "docker", "image", "inspect", "--format", "{{.Id}}", name)); id != string(out.Config) {
		t.Errorf("image %s, not %s", id, out.Config)
	}
	said := run(t, "docker", "run", "--rm", "--network", "none", name, "sh", "-c", `pwd; echo "$GREETING"; cat /usr/edited; ls /usr/gone /usr/opaque 2>&1; true`)
	for _, part := range []string{"/opt/x\n", "it's \"$HOME\"\n", "after", "new", "/usr/gone: No such file"} {
		if !strings.Contains(said, part) {
			t.Errorf("it said %q, without %q", said, part)
		}
	}
	same(t, withoutRoot(want), withoutRoot(engineTree(t, name)))
}

// withoutRoot leaves out the root's own line: Docker passes over what a layer says of it.
func withoutRoot(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(line string) bool { return strings.HasPrefix(line, `"/" `) })
}

func load(t testing.TB, dir string) {
	t.Helper()
	cmd := exec.Command("docker", "load")
	in, err := cmd.StdinPipe()
	must(t, err)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start(), Archive(t.Context(), dir, in), in.Close())
	if err := cmd.Wait(); err != nil {
		t.Fatalf("docker load: %v: %s", err, &said)
	}
}

// engineTree lists the tree that the engine's overlay2 has of an image.
func engineTree(t testing.TB, name string) []string {
	t.Helper()
	dirs := strings.Fields(run(t, "docker", "image", "inspect", "--format", "{{.GraphDriver.Data.UpperDir}} {{.GraphDriver.Data.LowerDir}}", name))
	point := t.TempDir()
	must(t, unix.Mount("test", point, "overlay", unix.MS_RDONLY, "lowerdir="+strings.Join(dirs, ":")))
	defer func() { must(t, unix.Unmount(point, 0)) }()
	return treetest.List(t, point)
}
