package export

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway/images/squashfs"
	"slipway/internal/ctxio"
)

// dockerManifest is the file by which engines without an OCI store find their way in an archive.
const dockerManifest = "manifest.json"

// OCIConfig says which image to make.
type OCIConfig struct {
	Base      *squashfs.Image // nil for an environment without a base: one layer holds all
	BaseLayer Layer           // as WriteLayer gave it once for Base
	BaseBlob  string          // the file that holds that layer's blob
	Env       *squashfs.Image

	Architecture string // "amd64"
	Variant      string // "v8"; mostly empty
	Run          v1.ImageConfig
	Created      time.Time         // zero: when the base was made, so that equal environments are equal images
	Comment      string            // for the history, such as the environment's digest
	Annotations  map[string]string // of the manifest
	Names        []string          // "registry/name:tag"
	Progress     Progress          // may be nil
}

// OCIImage says what OCI wrote.
type OCIImage struct {
	Manifest v1.Descriptor
	Config   digest.Digest // by which Docker knows the image
	Changes  Layer         // the layer that is this environment's own; all of it when there is no base
}

// OCI writes the image as a new directory dir: an OCI layout that is also what `docker load` reads, given as a tar
// (Archive). After an error there is no directory.
func OCI(ctx context.Context, cfg OCIConfig, dir string) (out OCIImage, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return out, written(dir, err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return out, written(dir, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("make OCI image: %w", errors.Join(err, os.RemoveAll(dir)))
		}
	}()
	l := layout{dir}
	if err := os.MkdirAll(l.blob(""), 0o755); err != nil {
		return out, written(dir, err)
	}
	if out.Changes, err = l.layer(ctx, cfg); err != nil {
		return out, err
	}
	stack := []Layer{out.Changes}
	if cfg.Base != nil {
		if err := copyFile(l.blob(cfg.BaseLayer.Digest.Encoded()), cfg.BaseBlob); err != nil {
			return out, err
		}
		stack = []Layer{cfg.BaseLayer, out.Changes}
	}
	return out, l.describe(cfg, stack, &out)
}

// layout is the directory of an OCI layout.
type layout struct{ dir string }

func (l layout) blob(hex string) string { return filepath.Join(l.dir, "blobs", "sha256", hex) }

// layer writes the environment's own layer, whose name is known only then.
func (l layout) layer(ctx context.Context, cfg OCIConfig) (Layer, error) {
	temp := l.blob("new")
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return Layer{}, written(temp, err)
	}
	layer, err := WriteLayer(ctx, LayerConfig{Base: cfg.Base, Env: cfg.Env, Out: f, Progress: cfg.Progress})
	if err := errors.Join(err, f.Close()); err != nil {
		return Layer{}, err
	}
	return layer, os.Rename(temp, l.blob(layer.Digest.Encoded()))
}

// describe writes all that is not a layer; the index last.
func (l layout) describe(cfg OCIConfig, stack []Layer, out *OCIImage) error {
	config, err := l.object(v1.MediaTypeImageConfig, imageConfig(cfg, stack))
	if err != nil {
		return err
	}
	manifest := v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: config,
		Annotations: cfg.Annotations,
	}
	docker := dockerImage{Config: blobName(config.Digest), RepoTags: cfg.Names}
	for _, layer := range stack {
		manifest.Layers = append(
			manifest.Layers,
			v1.Descriptor{MediaType: v1.MediaTypeImageLayerGzip, Digest: layer.Digest, Size: layer.Size},
		)
		docker.Layers = append(docker.Layers, blobName(layer.Digest))
	}
	if out.Manifest, err = l.object(v1.MediaTypeImageManifest, manifest); err != nil {
		return err
	}
	out.Manifest.Platform = &v1.Platform{OS: "linux", Architecture: cfg.Architecture, Variant: cfg.Variant}
	out.Config = config.Digest
	index := v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex,
		Manifests: named(out.Manifest, cfg.Names),
	}
	for _, file := range []struct {
		name    string
		content any
	}{
		{dockerManifest, []dockerImage{docker}}, {v1.ImageLayoutFile, v1.ImageLayout{Version: v1.ImageLayoutVersion}},
		{v1.ImageIndexFile, index},
	} {
		if err := writeJSON(filepath.Join(l.dir, file.name), file.content); err != nil {
			return err
		}
	}
	return nil
}

// dockerImage is an entry of Docker's manifest.json.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func blobName(d digest.Digest) string { return "blobs/sha256/" + d.Encoded() }

// named gives the index an entry for each name, as containerd reads them, and one without when there are none.
func named(manifest v1.Descriptor, names []string) []v1.Descriptor {
	if len(names) == 0 {
		return []v1.Descriptor{manifest}
	}
	var out []v1.Descriptor
	for _, name := range names {
		d := manifest
		tag := name[strings.LastIndexByte(name, ':')+1:]
		d.Annotations = map[string]string{v1.AnnotationRefName: tag, "io.containerd.image.name": name}
		out = append(out, d)
	}
	return out
}

func imageConfig(cfg OCIConfig, stack []Layer) v1.Image {
	created := cfg.Created
	if created.IsZero() {
		created = time.Unix(int64(cfg.Env.Super.ModTime), 0)
	}
	created = created.UTC()
	image := v1.Image{
		Created: &created, Platform: v1.Platform{OS: "linux", Architecture: cfg.Architecture, Variant: cfg.Variant},
		Config: cfg.Run,
		RootFS: v1.RootFS{Type: "layers"},
	}
	for _, layer := range stack {
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, layer.DiffID)
		image.History = append(image.History, v1.History{Created: &created, CreatedBy: "slipway: the base image"})
	}
	last := &image.History[len(stack)-1]
	last.CreatedBy, last.Comment = "slipway freeze", cfg.Comment
	return image
}

// object writes a JSON blob and gives its descriptor.
func (l layout) object(mediaType string, content any) (v1.Descriptor, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("encode %s: %w", mediaType, err)
	}
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw))}
	if err := os.WriteFile(l.blob(d.Digest.Encoded()), raw, 0o644); err != nil {
		return v1.Descriptor{}, written(mediaType, err)
	}
	return d, nil
}

func writeJSON(path string, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return written(path, err)
	}
	return nil
}

// copyFile copies within the kernel, and shares blocks where the file system can.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open the base's layer: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return written(to, err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return written(to, err)
	}
	return nil
}

// Archive writes an image that OCI made as one tar, for `docker load`, `podman load` and `ctr images import`.
func Archive(ctx context.Context, dir string, w io.Writer) error {
	out := tar.NewWriter(w)
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		return archiveFile(ctx, out, root, path)
	})
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("archive OCI image: %w", err)
	}
	return nil
}

func archiveFile(ctx context.Context, out *tar.Writer, root fs.FS, path string) error {
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: st.Size(), Mode: 0o644, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(out, ctxio.Until(ctx, f))
	return err
}
