package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	oci "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway/images/bases"
	"slipway/images/export"
	"slipway/images/libdir"
	"slipway/images/squashfs"
	"slipway/internal/errs"
)

// Export writes an environment as an OCI image in one tar, an OCI layout that `docker load` reads too. names are what
// it is called there, "registry/name:tag". Nothing is written before the image is complete, which may take minutes, and
// nothing stays.
func (l *Library) Export(ctx context.Context, digest string, names []string, w io.Writer) error {
	if _, err := l.Ready(ctx, digest); err != nil {
		return err
	}
	work, err := os.MkdirTemp(l.dir.Path("work"), "export-")
	if err != nil {
		return l.dir.Explain(err, 0)
	}
	defer l.discard(work)
	dir := filepath.Join(work, "image")
	if err := l.layOutAlone(ctx, digest, names, work, dir); err != nil {
		return fmt.Errorf("export %s: %w", digest, l.dir.Explain(err, 0))
	}
	return export.Archive(ctx, dir, w)
}

// Unpack writes an environment's tree below root, in the layout that unpacked CVMFS repositories have, and a link to it
// by name. One that is there already is not written again.
func (l *Library) Unpack(ctx context.Context, root, digest, name string) error {
	if _, err := l.Ready(ctx, digest); err != nil {
		return err
	}
	v, err := l.view(digest)
	if err != nil {
		return err
	}
	defer v.Close()
	made, err := export.Directory(
		ctx, export.DirectoryConfig{Env: v.image, Root: root, Digest: libdir.HexOrNone(digest), Name: name},
	)
	if made.Skipped.Count+made.Tamed.Count > 0 {
		l.log.Info("an unpacked environment has no devices and gives no rights", "digest", digest, "devices", made.Skipped.Count,
			"programs", made.Tamed.Count, "directory", made.Path)
	}
	return err
}

// layOutAlone lays one image out at a time: each takes all cores and much of the disk. Who is sent one does not keep
// others waiting.
func (l *Library) layOutAlone(ctx context.Context, digest string, names []string, work, dir string) error {
	select {
	case l.layingOut <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.layingOut }()
	return l.layOut(ctx, digest, names, work, dir)
}

// layOut makes the OCI image in dir.
func (l *Library) layOut(ctx context.Context, digest string, names []string, work, dir string) error {
	d, err := l.document(digest)
	if err != nil {
		return err
	}
	m, err := l.manifest(digest)
	if err != nil {
		return err
	}
	v, err := l.view(digest)
	if err != nil {
		return err
	}
	defer v.Close()
	if err := l.fits(v.image); err != nil {
		return err
	}
	cfg := export.OCIConfig{
		Env: v.image, Architecture: m.Architecture, Comment: digest, Names: names,
		Run: oci.ImageConfig{Env: m.Env, Entrypoint: m.Entrypoint, Cmd: m.Cmd, WorkingDir: m.WorkingDir},
	}
	if d.Base == nil {
		_, err = export.OCI(ctx, cfg, dir)
		return err
	}
	if !l.baseIsSound(ctx, d.Base.Part) {
		return noBase(d.Base.Digest)
	}
	b, err := l.openBase(d.Base.Digest)
	if err != nil {
		return err
	}
	defer b.Release()
	cfg.Base, cfg.BaseBlob = b.Image, filepath.Join(work, "base")
	if cfg.BaseLayer, err = baseLayer(ctx, b, cfg.BaseBlob); err != nil {
		return err
	}
	_, err = export.OCI(ctx, cfg, dir)
	return err
}

// fits refuses a tree whose contents may take more than is free. They are compressed again, but a block that stands in
// many files of a squashfs is in a layer as many times, so nothing can be told from the image's size.
func (l *Library) fits(image *squashfs.Image) error {
	if err := export.FewHoles(image); err != nil {
		return err
	}
	free, err := l.dir.Free()
	if err != nil {
		return err
	}
	if need := export.Contents(image); need > uint64(free) {
		return errs.New(
			errs.NoSpace, "the environment's files have %d MB, and %d MB are free to lay its image out", need>>20,
			free>>20,
		).With("take it as a SIF, or have the administrator make room")
	}
	return nil
}

// baseLayer writes the layer of a base: the same one for all environments over it, so that an engine keeps it once.
func baseLayer(ctx context.Context, b *bases.Base, path string) (export.Layer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return export.Layer{}, err
	}
	layer, err := export.WriteLayer(ctx, export.LayerConfig{Env: b.Image, Out: f})
	return layer, errors.Join(err, f.Close())
}
