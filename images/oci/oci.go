// Package oci has the documents by which environments stand in a registry: the index behind a tag, the manifest of a
// SIF as Apptainer wants it, and what refers to an environment.
//
// A tag names an image index. For each architecture it has the SIF's manifest first, when there is a SIF, and behind
// all of those the documents of the environments (base and tail). Apptainer takes the first entry of its own
// architecture and asks that it be a manifest with exactly one SIF layer, so `apptainer exec
// oras://host/owner/name:tag` works; Slipway takes the entry whose artifact type is an environment's. One tag names
// both at one instant, so nobody sees an environment beside another one's SIF, and a registry that clears away what has
// no tag keeps both. (Tried with Apptainer 1.4.5. A manifest with base and tail that comes first in the index is an
// error there, hence the order.)
//
// What it promises: whatever it parses is bounded, and every descriptor that it hands out has a sha256 digest and a
// size that is not negative; equal input gives equal bytes. What it must not do: any input or output.
package oci

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	digest "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	spec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway/images/blob"
	"slipway/internal/errs"
)

// The media types that stand in documents.
const (
	TypeEnvironment = "application/vnd.slipway.environment.v1"
	TypeSIFConfig   = "application/vnd.sylabs.sif.config.v1+json"
	TypeSIF         = "application/vnd.sylabs.sif.layer.v1.sif"
	TypeProvenance  = "application/vnd.dsse.envelope.v1+json" // a signed statement about an environment
	TypeManifest    = spec.MediaTypeImageManifest
	TypeIndex       = spec.MediaTypeImageIndex

	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// NoteEnvironment is the annotation of a SIF's manifest that names the environment which it renders.
const NoteEnvironment = "vnd.slipway.environment"

// MaxManifest bounds what is read of any document, as registries bound it themselves.
const MaxManifest = 4 << 20

// Empty is the content of a config that says nothing.
const Empty = "{}"

const maxEntries = 1000

// Descriptor names content by digest, size and type.
type Descriptor = spec.Descriptor

// Describe returns the descriptor of data.
func Describe(mediaType string, data []byte) Descriptor {
	return Name(mediaType, blob.Digest(data), int64(len(data)))
}

// Name returns the descriptor of content that lies elsewhere.
func Name(mediaType, name string, size int64) Descriptor {
	return Descriptor{MediaType: mediaType, Digest: digest.Digest(name), Size: size}
}

// SIF returns the manifest of a SIF, under which Apptainer pulls it. Environment is the digest of what it renders. Its
// layer has a title, because oras writes no file without one.
func SIF(environment, name string, size int64) []byte {
	layer := Name(TypeSIF, name, size)
	layer.Annotations = map[string]string{spec.AnnotationTitle: FileName(environment)}
	return encode(spec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: TypeManifest,
		Config: Describe(TypeSIFConfig, []byte(Empty)), Layers: []Descriptor{layer},
		Annotations: map[string]string{NoteEnvironment: environment},
	})
}

// FileName is how the SIF of an environment is called where a client chooses no name: the same under whatever names the
// environment has.
func FileName(environment string) string {
	if digits, ok := blob.Hex(environment); ok {
		return "environment-" + digits[:12] + ".sif"
	}
	return "environment.sif"
}

// Referrer returns the manifest of content that is about subject.
func Referrer(subject Descriptor, mediaType string, content []byte) []byte {
	about := Name(subject.MediaType, subject.Digest.String(), subject.Size)
	return encode(spec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: TypeManifest, ArtifactType: mediaType,
		Config: Describe(spec.MediaTypeEmptyJSON, []byte(Empty)), Layers: []Descriptor{Describe(mediaType, content)},
		Subject: &about,
	})
}

// Image names what a tag has for one architecture.
type Image struct {
	Architecture string      // as Go and OCI write it: amd64, arm64, ppc64le
	Environment  Descriptor  // of its document
	SIF          *Descriptor // of the SIF's manifest; nil: only base and tail are there
}

// Index returns the index of a tag.
func Index(images []Image) []byte {
	images = slices.Clone(images)
	slices.SortFunc(images, func(a, b Image) int { return strings.Compare(a.Architecture, b.Architecture) })
	index := spec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: TypeIndex, Manifests: []Descriptor{}}
	for _, i := range images {
		if i.SIF != nil {
			index.Manifests = append(index.Manifests, entry(*i.SIF, "", i.Architecture))
		}
	}
	for _, i := range images {
		index.Manifests = append(index.Manifests, entry(i.Environment, TypeEnvironment, i.Architecture))
	}
	return encode(index)
}

func entry(d Descriptor, artifact, architecture string) Descriptor {
	d = Name(TypeManifest, d.Digest.String(), d.Size)
	d.ArtifactType, d.Platform = artifact, &spec.Platform{Architecture: architecture, OS: "linux"}
	return d
}

// encode never fails: the documents are made of strings and numbers.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("oci: encode %T: %v", v, err))
	}
	return data
}

// Manifest is what a document of either kind says.
type Manifest struct {
	MediaType    string
	ArtifactType string
	Config       Descriptor   // of a manifest
	Layers       []Descriptor // of a manifest
	Manifests    []Descriptor // of an index
	Subject      *Descriptor  // what it is about
	Annotations  map[string]string
}

// IsIndex tells an index from a manifest.
func (m Manifest) IsIndex() bool { return m.MediaType == TypeIndex || m.MediaType == typeDockerIndex }

// Blobs returns the content that a manifest names, its config first.
func (m Manifest) Blobs() []Descriptor {
	if m.IsIndex() {
		return nil
	}
	return append([]Descriptor{m.Config}, m.Layers...)
}

// Parse reads a document that may come from a stranger.
func Parse(data []byte) (Manifest, error) {
	if len(data) > MaxManifest {
		return Manifest{}, bad("it has %d bytes, and %d are allowed", len(data), MaxManifest)
	}
	var raw struct {
		specs.Versioned
		MediaType    string            `json:"mediaType"`
		ArtifactType string            `json:"artifactType"`
		Config       *Descriptor       `json:"config"`
		Layers       []Descriptor      `json:"layers"`
		Manifests    []Descriptor      `json:"manifests"`
		Subject      *Descriptor       `json:"subject"`
		Annotations  map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Manifest{}, bad("%v", err)
	}
	m := Manifest{
		MediaType: raw.MediaType, ArtifactType: raw.ArtifactType, Layers: raw.Layers, Manifests: raw.Manifests,
		Subject: raw.Subject, Annotations: raw.Annotations,
	}
	if raw.Config != nil {
		m.Config = *raw.Config
	}
	if raw.SchemaVersion != 2 {
		return Manifest{}, bad("its schema version is %d, not 2", raw.SchemaVersion)
	}
	return m, m.check(raw.Config != nil)
}

// check refuses what is both a manifest and an index: two readers could take it for different things.
func (m *Manifest) check(config bool) error {
	isManifest, isIndex := config || m.Layers != nil, m.Manifests != nil
	if isManifest == isIndex || isManifest && !config {
		return bad("it is neither a manifest with a config nor an index")
	}
	if m.MediaType == "" {
		m.MediaType = map[bool]string{false: TypeManifest, true: TypeIndex}[isIndex]
	}
	known := []string{TypeManifest, typeDockerManifest}
	if isIndex {
		known = []string{TypeIndex, typeDockerIndex}
	}
	if !slices.Contains(known, m.MediaType) {
		return bad("its media type is %.100q", m.MediaType)
	}
	all := append(append(m.Blobs(), m.Manifests...), deref(m.Subject)...)
	if len(all) > maxEntries {
		return bad("it has %d entries, and %d are allowed", len(all), maxEntries)
	}
	for _, d := range all {
		if _, ok := blob.Hex(d.Digest.String()); !ok || d.Size < 0 {
			return bad("it names content by %.80q with size %d", d.Digest, d.Size)
		}
	}
	return nil
}

func deref(d *Descriptor) []Descriptor {
	if d == nil {
		return nil
	}
	return []Descriptor{*d}
}

func bad(why string, args ...any) error {
	return errs.New(errs.Invalid, "this is no OCI manifest or index: %s", fmt.Sprintf(why, args...))
}

// Images returns the environments of an index, one for an architecture. Entries of other kinds are left out.
func (m Manifest) Images() []Image {
	var images []Image
	for _, d := range m.Manifests {
		if d.ArtifactType == TypeEnvironment && d.Platform != nil && !has(images, d.Platform.Architecture) {
			images = append(
				images,
				Image{Architecture: d.Platform.Architecture, Environment: d, SIF: m.sif(d.Platform.Architecture)},
			)
		}
	}
	return images
}

func has(images []Image, architecture string) bool {
	return slices.ContainsFunc(images, func(i Image) bool { return i.Architecture == architecture })
}

// sif is the entry that Apptainer would take on that architecture.
func (m Manifest) sif(architecture string) *Descriptor {
	for _, d := range m.Manifests {
		if d.Platform != nil && d.Platform.Architecture == architecture && d.Platform.OS == "linux" {
			if d.ArtifactType != "" {
				return nil
			}
			return &d
		}
	}
	return nil
}
