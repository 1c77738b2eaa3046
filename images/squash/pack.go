package squash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/tree"
	"slipway/internal/errs"
)

// Request says what to pack, and where to.
type Request struct {
	Layers []string // directories, topmost first, without what an engine adds at start (Docker's -init layer)
	Upper  string   // the changes over Layers; empty: none
	Image  ImageConfig
	Strip  *tree.Strip
	Work   string // an empty directory for the time of the call, on a file system with trusted xattrs
	Out    string // the file to write; it may be there
	Offset int64  // where the squashfs begins in Out

	Pause  func(context.Context) error // stops every writer of Upper; nil when nothing runs
	Resume func(context.Context) error // undoes Pause; called after it in every case, also when it failed; nil when nothing runs
	// Progress is told how far a stage has come; total is 0 while it is not known. May be called from several goroutines.
	Progress func(s Stage, files, bytes, total int64)
}

// Stage is a step of packing.
type Stage string

// The stages, in their order.
const (
	Copying Stage = "copying" // taking the snapshot of the changes; the source is paused
	Packing Stage = "packing" // compressing the tree
)

// Result says what was packed.
type Result struct {
	Files  int64 // entries of the tree of any kind
	Bytes  int64 // of its regular files, holes included
	Losses Losses
	Skipped
	Added []string // what Apptainer needs and the tree lacked
}

// Skipped is what of the changes is left out, with what the layers have of its name.
type Skipped struct {
	Sockets []string
	Devices []string // the layers' own are packed
}

func (s Skipped) all() []string { return append(slices.Clone(s.Sockets), s.Devices...) }

// MaxLayers keeps the mount options of the longest stack within the one page that mount(2) takes.
const MaxLayers = 128

// Pack packs the tree with the mksquashfs that program names.
func Pack(ctx context.Context, program string, r Request) (Result, error) {
	if len(r.Layers) == 0 || len(r.Layers) > MaxLayers {
		return Result{}, errs.New(errs.Invalid, "%d layers cannot be merged, 1 to %d can", len(r.Layers), MaxLayers)
	}
	if _, err := find(program); err != nil {
		return Result{}, err
	}
	if r.Progress == nil {
		r.Progress = func(Stage, int64, int64, int64) {}
	}
	for _, dir := range []string{"upper", "skeleton", "mount"} {
		if err := os.Mkdir(filepath.Join(r.Work, dir), 0o700); err != nil {
			return Result{}, err
		}
	}
	var out Result
	var err error
	if out.Skipped, err = r.changes(ctx); err != nil {
		return Result{}, err
	}
	root, added, err := r.assemble(ctx, out.Skipped)
	if err != nil {
		return Result{}, err
	}
	out.Added = added
	err = r.packAndCount(ctx, program, root, &out)
	return out, errors.Join(err, root.Close())
}

// changes fills the topmost layer of what is packed: a snapshot of the upper directory, or a directory that changes nothing.
func (r Request) changes(ctx context.Context) (skipped Skipped, err error) {
	if r.Upper != "" {
		return r.take(ctx)
	}
	var top tree.Attr
	if err := unix.Lstat(r.Layers[0], &top.Stat); err != nil {
		return skipped, fmt.Errorf("lstat %s: %w", r.Layers[0], err)
	}
	if top.Xattrs, err = tree.ReadXattrs(r.Layers[0]); err != nil {
		return skipped, err
	}
	if top.Xattrs, err = keptXattrs(top.Xattrs, ""); err != nil {
		return skipped, err
	}
	return skipped, top.Apply(filepath.Join(r.Work, "upper"))
}

// resumeTimeout bounds the resuming of a source, whatever became of the packing.
const resumeTimeout = 30 * time.Second

// take pauses the source, copies its changes and resumes it, whatever happens.
func (r Request) take(ctx context.Context) (skipped Skipped, err error) {
	// Most of the writing out is done while the source still runs.
	if err := syncfs(r.Upper); err != nil {
		return skipped, err
	}
	if r.Resume != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
			defer cancel()
			if failed := r.Resume(ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("resume: %w", failed))
			}
		}()
	}
	if r.Pause != nil {
		if err := r.Pause(ctx); err != nil {
			return skipped, fmt.Errorf("pause: %w", err)
		}
	}
	// A page that stays dirty in a shared mapping can be written again without a new time. Once it is clean, it cannot.
	if err := syncfs(r.Upper); err != nil {
		return skipped, err
	}
	to, err := tree.OpenDir(filepath.Join(r.Work, "upper"))
	if err != nil {
		return skipped, err
	}
	defer to.Close()
	return snapshot(ctx, r.Upper, to, r.Strip, r.Progress)
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

// assemble gives the root of the tree to pack: the changes over the layers, with what strip rules match hidden and what Apptainer
// needs added.
func (r Request) assemble(ctx context.Context, skipped Skipped) (root *os.File, added []string, err error) {
	upper, bottom, point := filepath.Join(r.Work, "upper"), filepath.Join(r.Work, "skeleton"), filepath.Join(r.Work, "mount")
	layers := append([]string{upper}, r.Layers...)
	if err := coverSkipped(layers, point, skipped.all()); err != nil {
		return nil, nil, err
	}
	hide, absent, err := survey(ctx, layers, point, r.Strip)
	if err != nil {
		return nil, nil, err
	}
	if err := hide.coverIn(upper); err != nil {
		return nil, nil, err
	}
	if err := writeRuntime(upper, r.Image); err != nil {
		return nil, nil, err
	}
	if err := writeSkeleton(bottom); err != nil {
		return nil, nil, err
	}
	if root, err = tree.Merged(append(layers, bottom), point); err != nil {
		return nil, nil, err
	}
	return root, append(present(root, absent), "/"+runtimeDir), nil
}

// survey looks at the merged tree before anything is hidden in it or added to it.
func survey(ctx context.Context, layers []string, point string, strip *tree.Strip) (hide *hidden, absent []string, err error) {
	plain, err := tree.Merged(layers, point)
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

// packAndCount packs the tree while it walks it for what no squashfs holds.
func (r Request) packAndCount(ctx context.Context, program string, root *os.File, out *Result) error {
	r.Progress(Packing, 0, 0, 0)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	counted := make(chan error, 1)
	go func() {
		err := count(ctx, root, out)
		if err != nil {
			cancel()
		}
		counted <- err
	}()
	err := mksquashfs(ctx, program, root, r.Out, r.Offset, func(percent float64) {
		var st unix.Stat_t
		if unix.Stat(r.Out, &st) == nil && percent > 0 {
			bytes := max(0, st.Size-r.Offset)
			r.Progress(Packing, 0, bytes, max(bytes, int64(float64(bytes)*100/percent)))
		}
	})
	if err != nil {
		cancel()
	}
	return errors.Join(err, <-counted)
}
