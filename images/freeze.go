package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// resumeTimeout bounds the resuming of a source whose freeze is over, whatever became of the freeze.
const resumeTimeout = 30 * time.Second

// Request asks for an environment.
type Request struct {
	Owner    string
	Name     string // optional
	Tag      string // optional, with a name only
	Note     string // optional, for people
	Key      string // names the source; two freezes of one key are one while they overlap
	Source   Source
	Progress func(Progress) // called on the caller's goroutine, several times a second; may be nil
}

// Freeze makes an environment out of the source's present state. It comes back only when the source runs again and nothing
// unfinished is left, also when ctx ends, unless another caller still waits for the same key. The caller who joins a
// freeze in progress gets its result, under the name in the caller's own request.
func (l *Library) Freeze(ctx context.Context, req Request) (Environment, error) {
	if err := req.validate(); err != nil {
		return Environment{}, fmt.Errorf("freeze: %w", err)
	}
	work := func(ctx context.Context, m *meter) (frozen, error) { return l.freeze(ctx, req, m) }
	f, err := l.flights.do(ctx, req.Owner+"\x00"+req.Key, req.Progress, work)
	if err != nil {
		return Environment{}, fmt.Errorf("freeze %s: %w", req.Key, err)
	}
	e, err := l.enter(req, f)
	if err != nil {
		return Environment{}, fmt.Errorf("freeze %s: %w", req.Key, l.explain(err, 0))
	}
	if req.Progress != nil {
		req.Progress(Progress{Stage: Done, Files: f.Manifest.Files, Bytes: f.Size, Total: f.Size, Percent: 100})
	}
	return e, nil
}

func (l *Library) freeze(ctx context.Context, req Request, m *meter) (frozen, error) {
	m.begin(Scanning, 0)
	before, err := scanUpper(ctx, req.Source.Upper, l.strip, m)
	if err != nil {
		return frozen{}, err
	}
	id, err := identity(before.sum, req.Source, l.strip.Rules())
	if err != nil {
		return frozen{}, err
	}
	if f, ok := l.last(req, id); ok {
		return f, nil
	}
	if _, err := l.packer.find(); err != nil {
		return frozen{}, err
	}
	work, err := os.MkdirTemp(l.path("work"), "freeze-")
	if err != nil {
		return frozen{}, l.explain(err, before.bytes)
	}
	f, err := l.build(ctx, req, work, m)
	if err != nil {
		err = l.explain(err, before.bytes) // before the work is removed: it tells how much is free now
	}
	if rmErr := os.RemoveAll(work); rmErr != nil {
		l.log.Error("what a freeze left cannot be removed", "path", work, "error", rmErr)
	}
	return f, err
}

func (l *Library) build(ctx context.Context, req Request, work string, m *meter) (frozen, error) {
	for _, dir := range []string{"upper", "skeleton", "mount"} {
		if err := os.Mkdir(filepath.Join(work, dir), 0o700); err != nil {
			return frozen{}, err
		}
	}
	taken, skipped, err := l.take(ctx, req.Source, filepath.Join(work, "upper"), m)
	if err != nil {
		return frozen{}, err
	}
	manifest := l.manifest(req.Source, skipped)
	tree, err := assemble(ctx, req.Source, work, l.strip, &manifest)
	if err != nil {
		return frozen{}, err
	}
	image := filepath.Join(work, "image.sif")
	err = l.packAndInspect(ctx, tree, image, &manifest, m)
	if err := errors.Join(err, tree.Close()); err != nil {
		return frozen{}, err
	}
	digest, size, err := finishSIF(ctx, image, manifest.Architecture, &manifest, m)
	if err != nil {
		return frozen{}, err
	}
	f := frozen{Digest: digest, Size: size, Base: req.Source.Base, Manifest: manifest}
	if err := l.publish(image, digest); err != nil {
		return frozen{}, err
	}
	id, err := identity(taken.sum, req.Source, l.strip.Rules())
	if err != nil {
		return frozen{}, err
	}
	return f, l.saveLast(req, id, f)
}

func (l *Library) manifest(src Source, skipped []string) Manifest {
	return Manifest{
		Format: manifestFormat, Base: src.Base, Architecture: src.architecture(),
		Entrypoint: src.Config.Entrypoint, Cmd: src.Config.Cmd, WorkingDir: src.Config.WorkingDir,
		Strip: l.strip.Rules(), Mounts: texts(src.Mounts), Skipped: texts(skipped), Unexported: unexported(src.Config.Env),
	}
}

// take pauses the source, notes its state, copies it into dst and resumes it, whatever happens.
func (l *Library) take(ctx context.Context, src Source, dst string, m *meter) (taken scan, skipped []string, err error) {
	m.begin(Copying, 0)
	// Most of the writing out is done while the source still runs.
	if err := syncUpper(src.Upper); err != nil {
		return scan{}, nil, err
	}
	if src.Pause != nil {
		defer func() { err = errors.Join(err, resume(ctx, src)) }()
		if err := src.Pause(ctx); err != nil {
			return scan{}, nil, fmt.Errorf("pause: %w", err)
		}
	}
	// A page that stays dirty in a shared mapping can be written again without a new time. Once it is clean, it cannot.
	if err := syncUpper(src.Upper); err != nil {
		return scan{}, nil, err
	}
	if taken, err = scanUpper(ctx, src.Upper, l.strip, &meter{}); err != nil {
		return scan{}, nil, err
	}
	m.total(taken.bytes)
	to, err := tree.OpenDir(dst)
	if err != nil {
		return scan{}, nil, err
	}
	defer to.Close()
	skipped, err = snapshot(ctx, src.Upper, to, l.strip, m)
	return taken, skipped, err
}

func resume(ctx context.Context, src Source) error {
	if src.Resume == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
	defer cancel()
	if err := src.Resume(ctx); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

func syncUpper(upper string) error {
	f, err := tree.OpenDir(upper)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("syncfs %s: %w", upper, err)
	}
	return nil
}

// assemble gives the root of the tree to pack: the snapshot over the source's layers, with what strip rules match hidden
// and what Apptainer needs added.
func assemble(ctx context.Context, src Source, work string, strip *tree.Strip, m *Manifest) (*os.File, error) {
	upper, bottom, point := filepath.Join(work, "upper"), filepath.Join(work, "skeleton"), filepath.Join(work, "mount")
	layers := append([]string{upper}, src.Layers...)
	hide, absent, err := survey(ctx, layers, point, strip)
	if err != nil {
		return nil, err
	}
	if err := hide.coverIn(upper); err != nil {
		return nil, err
	}
	if err := writeRuntime(upper, src.Config); err != nil {
		return nil, err
	}
	if err := writeSkeleton(bottom); err != nil {
		return nil, err
	}
	tree, err := mountLayers(append(layers, bottom), point)
	if err == nil {
		m.Added = append(present(tree, absent), "/"+runtimeDir)
	}
	return tree, err
}

// survey looks at the merged tree before anything is hidden in it or added to it.
func survey(ctx context.Context, layers []string, point string, strip *tree.Strip) (hide *hidden, absent []string, err error) {
	plain, err := mountLayers(layers, point)
	if err != nil {
		return nil, nil, err
	}
	defer plain.Close()
	if hide, err = findHidden(ctx, plain, strip); err != nil {
		return nil, nil, err
	}
	for _, e := range skeleton() {
		if !exists(plain, e.path) {
			absent = append(absent, "/"+e.path)
		}
	}
	return hide, absent, nil
}

// packAndInspect packs the tree while it walks it for the manifest.
func (l *Library) packAndInspect(ctx context.Context, tree *os.File, out string, manifest *Manifest, m *meter) error {
	m.begin(Packing, 0)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inspected := make(chan error, 1)
	go func() {
		err := inspect(ctx, tree, manifest)
		if err != nil {
			cancel()
		}
		inspected <- err
	}()
	err := l.packer.pack(ctx, tree, out, func(percent float64) {
		var st unix.Stat_t
		if unix.Stat(out, &st) == nil {
			m.set(max(0, st.Size-partitionOffset), percent)
		}
	})
	if err != nil {
		cancel()
	}
	return errors.Join(err, <-inspected)
}

// publish gives a finished image its place. One that is there already stays: it has the same bytes.
func (l *Library) publish(image, digest string) error {
	place := l.blob(digest)
	if _, err := os.Lstat(place); err == nil {
		return nil
	}
	if err := os.Rename(image, place); err != nil {
		return err
	}
	return syncDir(l.path("blobs"))
}

// explain turns a full disk into an error that says where and how much. need is the size of the changes, 0 when they do
// not matter.
func (l *Library) explain(err error, need int64) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	where := "on the file system of " + l.dir
	var st unix.Statfs_t
	if unix.Statfs(l.dir, &st) == nil {
		where = fmt.Sprintf("%d MB are free %s", int64(st.Bavail)*st.Bsize>>20, where)
	}
	return errs.New(errs.NoSpace, "no space for the environment, %s: %w", where, err).
		With(fmt.Sprintf("free at least the image's size and %d MB for the changes, or enlarge the quota, and freeze again", need>>20+1))
}
