package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	oci "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway/images/blob"
	"slipway/internal/errs"
)

// TestExport: the tar is a whole OCI layout, in which every file has the digest that it is called by, and environments
// over one base share its layer.
func TestExport(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	var bases []string
	for _, name := range []string{"first", "second"} {
		f.change(func(root string) error { return write(root+"/opt/mine", name) })
		e := freeze(t, l, f, nil)
		var out bytes.Buffer
		must(t, l.Export(t.Context(), e.Digest, []string{"slipway/ana:" + name}, &out))
		noLeftovers(t, l)
		files := untar(t, &out)
		var index oci.Index
		must(t, json.Unmarshal(files["index.json"], &index))
		var m oci.Manifest
		must(t, json.Unmarshal(files["blobs/sha256/"+index.Manifests[0].Digest.Encoded()], &m))
		for path, data := range files {
			if hexPart, ok := strings.CutPrefix(path, "blobs/sha256/"); ok && blob.Digest(data) != blob.Prefix+hexPart {
				t.Errorf("%s is %s", path, blob.Digest(data))
			}
		}
		var config oci.Image
		must(t, json.Unmarshal(files["blobs/sha256/"+m.Config.Digest.Encoded()], &config))
		if len(m.Layers) != 2 || config.Config.Cmd[0] != "/bin/sh" || !strings.Contains(string(files["manifest.json"]), "slipway/ana:"+name) {
			t.Errorf("%d layers, %+v, %s", len(m.Layers), config.Config, files["manifest.json"])
		}
		bases = append(bases, m.Layers[0].Digest.String())
	}
	if bases[0] != bases[1] {
		t.Errorf("the bases are %q", bases)
	}
	if err := l.Export(t.Context(), blob.Digest(nil), nil, failing{}); !errs.Is(err, errs.NotFound) {
		t.Errorf("no environment: %v", err)
	}
	e := freeze(t, l, f, nil)
	if err := l.Export(t.Context(), e.Digest, nil, failing{}); err == nil {
		t.Error("nobody takes it, and nobody is told")
	}
	noLeftovers(t, l)
}

func TestUnpack(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(func(root string) error { return write(root+"/opt/mine", "mine") })
	l, root := newLibrary(t), t.TempDir()
	e := freeze(t, l, f, nil)
	for range 2 {
		must(t, l.Unpack(t.Context(), root, e.Digest, "alice/ana:v1"))
	}
	if got, err := os.ReadFile(filepath.Join(root, "alice/ana:v1/opt/mine")); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
	if err := l.Unpack(t.Context(), root, blob.Digest(nil), "alice/ana:v2"); !errs.Is(err, errs.NotFound) {
		t.Errorf("no environment: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("gone") }

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return files
		}
		must(t, err)
		files[h.Name], err = io.ReadAll(in)
		must(t, err)
	}
}
