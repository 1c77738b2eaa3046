package images

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"slipway/images/graft"
	"slipway/images/secrets"
	"slipway/images/sif"
	"slipway/images/squash"
	"slipway/images/squashfs"
)

// repack is the way out for changes that cannot be grafted: a snapshot of them, and the whole merged tree packed anew. It costs a
// copy of the changes and the time of a base, and its environment shares no byte with others.
func (l *Library) repack(ctx context.Context, req Request, work string, file *os.File, m *meter) (*draft, error) {
	d := &draft{file: file, carried: req.Carried, manifest: l.manifestOf(req)}
	pause := func(ctx context.Context) error {
		if req.Source.Pause != nil {
			if err := req.Source.Pause(ctx); err != nil {
				return err
			}
		}
		var err error
		d.state, _, _, err = graft.Scan(ctx, req.Source.Upper, l.stripOf(req))
		return err
	}
	packed, err := squash.Pack(ctx, l.mksquashfs, squash.Request{
		Layers: req.Source.Layers, Upper: req.Source.Upper, Image: req.Source.labelled(), Strip: l.stripOf(req), Work: work, Out: file.Name(),
		Offset: sif.PartitionOffset, Pause: pause, Resume: req.Source.Resume,
		Progress: func(s squash.Stage, files, bytes, total int64) { m.at(Stage(s), files, bytes, total) },
	})
	if err != nil {
		return nil, err
	}
	d.manifest.Sockets, d.manifest.Devices = skipped(packed.Sockets), skipped(packed.Devices)
	d.manifest.Added, d.manifest.Losses = texts(packed.Added), squashLosses(packed.Losses)
	scanner, err := secrets.New(secrets.Config{Allow: req.Allow})
	if err != nil {
		return nil, err
	}
	if err := lookAt(ctx, scanner, filepath.Join(work, "upper")); err != nil {
		return nil, err
	}
	return d, d.sealPacked(ctx, scanner)
}

// sealPacked takes what mksquashfs wrote for a tail without a base.
func (d *draft) sealPacked(ctx context.Context, scanner *secrets.Scanner) error {
	st, err := d.file.Stat()
	if err != nil {
		return err
	}
	image, err := squashfs.Parse(sectionOf(d.file, sif.PartitionOffset, st.Size()-sif.PartitionOffset), st.Size()-sif.PartitionOffset)
	if err != nil {
		return fmt.Errorf("read what mksquashfs wrote: %w", err)
	}
	tail := newHasher(io.Discard)
	if err := copySection(ctx, tail, d.file, sif.PartitionOffset+superblockSize, st.Size()); err != nil {
		return err
	}
	return d.seal(ctx, image.Super, tail, scanner)
}

// maxLook is the size up to which files are shown whole to the search for secrets, as in a graft.
const maxLook = 1 << 20

// lookAt shows a snapshot's files to the scanner. Nobody but the service can change it.
func lookAt(ctx context.Context, scanner *secrets.Scanner, dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return lookIn(scanner, path, strings.TrimPrefix(path, dir), info.Size())
	})
}

// lookIn shows one file to the scanner, whole or as a large one.
func lookIn(scanner *secrets.Scanner, path, name string, size int64) error {
	if size > maxLook {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return scanner.LookLarge(name, size, f)
	}
	content, err := os.ReadFile(path)
	if err == nil {
		scanner.Look(name, content)
	}
	return err
}
