package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/bases"
	"slipway/images/blob"
	"slipway/images/graft"
	"slipway/images/imagefile"
	"slipway/images/manifest"
	"slipway/images/progress"
	"slipway/images/secretscan"
	"slipway/images/sif"
	"slipway/images/tree"
)

// repack is the way out for changes that cannot be grafted: the whole merged tree is packed anew, as the kernel shows
// it. The source stands still for all of that, and its environment shares no byte with others.
func (l *Library) repack(
	ctx context.Context, req Request, work string, file *os.File, m *progress.Meter,
) (*draft, error) {
	d := &draft{file: file, carried: req.Carried, manifest: l.manifestOf(req)}
	scanner, err := secretscan.New(secretscan.Config{Allow: req.Allow})
	if err != nil {
		return nil, err
	}
	tail := blob.NewHasher(l.within(ctx, req, imagefile.NewEager(file, sif.PartitionOffset+manifest.SuperblockSize)))
	var made graft.Result
	start := time.Now()
	err = held(ctx, req.Source, func() (err error) {
		made, d.state, err = l.packWhole(ctx, req, work, scanner, graft.Config{
			Out: tail, Progress: func(_ graft.Stage, files, bytes int64) { m.At(progress.Packing, files, bytes, 0) },
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	d.paused = time.Since(start)
	d.manifest.Sockets, d.manifest.Devices = skipped(made.Sockets), skipped(made.Devices)
	d.manifest.Added, d.manifest.Losses = manifest.Texts(made.Added), plusLosses(manifest.Losses{}, made.Losses)
	if err := scanner.LookAtLarge(ctx, req.Source.Upper, nil, made.Root, nil); err != nil {
		return nil, err
	}
	return d, d.seal(ctx, made.Super, tail, scanner, d.file)
}

// resumeTimeout bounds the resuming of a source, whatever became of the packing.
const resumeTimeout = 30 * time.Second

// held runs fn while the source stands still.
func held(ctx context.Context, src Source, fn func() error) (err error) {
	if src.Resume != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
			defer cancel()
			if failed := src.Resume(ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("resume: %w", failed))
			}
		}()
	}
	if src.Pause != nil {
		if err := src.Pause(ctx); err != nil {
			return fmt.Errorf("pause: %w", err)
		}
	}
	return fn()
}

// packWhole packs what a source that stands still shows, and fingerprints its changes. Of them alone the scanner is
// shown the files, and sockets and devices are left out.
func (l *Library) packWhole(
	ctx context.Context, req Request, work string, scanner *secretscan.Scanner, cfg graft.Config,
) (made graft.Result, state string, err error) {
	upper := req.Source.Upper
	// A page that stays dirty in a shared mapping can be written again without a new time. Once it is clean, it cannot.
	if err := syncfs(upper); err != nil {
		return made, "", err
	}
	cfg.Strip, cfg.Omit = l.stripOf(req), map[string]bool{}
	if state, _, _, err = graft.Scan(ctx, upper, cfg.Strip); err != nil {
		return made, "", err
	}
	own := map[string]bool{}
	err = graft.Each(ctx, upper, cfg.Strip, func(path string, st *unix.Stat_t) {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			own["/"+path] = true
		case unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK:
			cfg.Omit[path] = true
		}
	})
	if err != nil {
		return made, "", err
	}
	cfg.Look = func(path string, content []byte) {
		if own[path] {
			scanner.Look(path, content)
		}
	}
	made, err = bases.Pack(ctx, req.Source.labelled(), append([]string{upper}, req.Source.Layers...), work, cfg)
	return made, state, err
}

func syncfs(dir string) error {
	f, err := tree.OpenDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("syncfs %s: %w", dir, err)
	}
	return nil
}
