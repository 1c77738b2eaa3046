package oci

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/images/blob"
	"slipway/internal/errs"
)

func environment(text string) Descriptor { return Describe(TypeManifest, []byte(text)) }

func TestIndexHasSIFsFirst(t *testing.T) {
	sif := Describe(TypeManifest, SIF(environment("amd").Digest.String(), blob.Digest([]byte("a sif")), 5))
	data := Index([]Image{
		{Architecture: "arm64", Environment: environment("arm")},
		{Architecture: "amd64", Environment: environment("amd"), SIF: &sif},
	})
	m, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, d := range m.Manifests {
		order = append(order, d.Platform.Architecture+" "+d.ArtifactType)
	}
	want := []string{"amd64 ", "amd64 " + TypeEnvironment, "arm64 " + TypeEnvironment}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Error(diff)
	}
	images := m.Images()
	if len(images) != 2 || images[0].SIF == nil || images[0].SIF.Digest != sif.Digest || images[1].SIF != nil {
		t.Errorf("%+v", images)
	}
	if again := Index(images); !bytes.Equal(again, data) {
		t.Errorf("an index that is read and written again becomes\n%s\nfrom\n%s", again, data)
	}
}

func TestDocumentsSayWhatTheyName(t *testing.T) {
	env := environment("e")
	sif, err := Parse(SIF(env.Digest.String(), blob.Digest([]byte("a sif")), 5))
	if err != nil {
		t.Fatal(err)
	}
	if sif.IsIndex() || sif.Config.MediaType != TypeSIFConfig || len(sif.Layers) != 1 || sif.Layers[0].Annotations["org.opencontainers.image.title"] != FileName(env.Digest.String()) || sif.Annotations[NoteEnvironment] != env.Digest.String() {
		t.Errorf("%+v", sif)
	}
	about, err := Parse(Referrer(env, TypeProvenance, []byte("signed")))
	if err != nil {
		t.Fatal(err)
	}
	if about.Subject == nil || about.Subject.Digest != env.Digest || about.ArtifactType != TypeProvenance || about.Layers[0].Size != 6 {
		t.Errorf("%+v", about)
	}
}

func TestParseRefuses(t *testing.T) {
	d := string(encode(environment("x")))
	tests := map[string]string{
		"nothing":          ``,
		"not an object":    `[]`,
		"version 1":        `{"schemaVersion":1,"config":` + d + `}`,
		"both kinds":       `{"schemaVersion":2,"config":` + d + `,"manifests":[]}`,
		"neither kind":     `{"schemaVersion":2}`,
		"layers alone":     `{"schemaVersion":2,"layers":[` + d + `]}`,
		"another type":     `{"schemaVersion":2,"mediaType":"text/plain","config":` + d + `}`,
		"an index as one":  `{"schemaVersion":2,"mediaType":"` + TypeIndex + `","config":` + d + `}`,
		"no digest":        `{"schemaVersion":2,"config":{}}`,
		"a path as digest": `{"schemaVersion":2,"config":{"digest":"sha256:../../etc/passwd"}}`,
		"a negative size":  `{"schemaVersion":2,"config":` + strings.Replace(d, `"size":1`, `"size":-1`, 1) + `}`,
		"a bad layer":      `{"schemaVersion":2,"config":` + d + `,"layers":[{"digest":"md5:00"}]}`,
		"a bad subject":    `{"schemaVersion":2,"config":` + d + `,"subject":{}}`,
		"too many":         `{"schemaVersion":2,"manifests":[` + strings.Repeat(d+",", maxEntries) + d + `]}`,
		"too long":         `{"schemaVersion":2,"config":` + d + `}` + strings.Repeat(" ", MaxManifest),
	}
	for name, text := range tests {
		if m, err := Parse([]byte(text)); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if _, err := Parse([]byte(`{"schemaVersion":2,"config":` + d + `}`)); err != nil {
		t.Errorf("the smallest manifest is refused: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	sif := environment("s")
	f.Add(Index([]Image{{Architecture: "amd64", Environment: environment("a"), SIF: &sif}}))
	f.Add(SIF("sha256:x", blob.Digest(nil), 5))
	f.Add(Referrer(environment("e"), TypeProvenance, []byte("x")))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"platform":null}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		for _, d := range append(m.Blobs(), m.Manifests...) {
			if _, ok := blob.Hex(d.Digest.String()); !ok || d.Size < 0 {
				t.Fatalf("a descriptor of %q with size %d was let through", d.Digest, d.Size)
			}
		}
		again, err := Parse(Index(m.Images()))
		if err != nil || len(again.Images()) != len(m.Images()) {
			t.Fatalf("%d images become %d: %v", len(m.Images()), len(again.Images()), err)
		}
	})
}
