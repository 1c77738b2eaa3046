package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway/images/blob"
	"slipway/internal/errs"
)

const (
	temporary = ".new-"
	abandoned = 24 * time.Hour // nobody writes one file for so long
)

// DirConfig is what a directory store is made of.
type DirConfig struct {
	Path   string
	Suffix string      // of file names behind the hexadecimal digest, such as ".sif"
	Mode   fs.FileMode // of files; 0600 when 0
	// Existing wants the directory to be there when it is used: one that is missing is a file system that was not
	// mounted.
	Existing bool
}

// Dir keeps each blob in a file of one directory.
type Dir struct{ cfg DirConfig }

// OpenDir opens a directory store, makes the directory when there is none, and removes what writers that were killed
// left.
func OpenDir(cfg DirConfig) (*Dir, error) {
	if cfg.Mode == 0 {
		cfg.Mode = 0o600
	}
	if !cfg.Existing {
		if err := os.MkdirAll(cfg.Path, 0o755); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	left, err := filepath.Glob(filepath.Join(cfg.Path, temporary+"*"))
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if st, err := os.Lstat(path); err == nil && time.Since(st.ModTime()) > abandoned {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
		}
	}
	return &Dir{cfg}, nil
}

func (d *Dir) path(digest string) (string, error) {
	name, err := file(digest, d.cfg.Suffix)
	return filepath.Join(d.cfg.Path, name), err
}

// Put writes a file beside its place, and moves it there when it is on the disk and its digest is right. Where the file
// system can share the bytes of two files, they are shared.
func (d *Dir) Put(ctx context.Context, digest string, b blob.Blob) error {
	path, err := d.path(digest)
	if err != nil {
		return err
	}
	if st, err := os.Stat(path); err == nil && st.Size() == b.Size() {
		return nil
	}
	f, err := os.CreateTemp(d.cfg.Path, temporary+"*")
	if errors.Is(err, fs.ErrNotExist) {
		return unmounted(d.cfg.Path, err)
	}
	if err != nil {
		return space(err)
	}
	defer os.Remove(f.Name()) // gone after the rename
	err = fill(ctx, f, digest, b)
	if err := errors.Join(err, f.Chmod(d.cfg.Mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("store %s in %s: %w", digest, d.cfg.Path, space(err))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(d.cfg.Path)
}

func fill(ctx context.Context, f *os.File, digest string, b blob.Blob) error {
	if from, ok := b.(interface{ Fd() uintptr }); ok && unix.IoctlFileClone(int(f.Fd()), int(from.Fd())) == nil {
		_, err := copyVerified(ctx, io.Discard, io.LimitReader(f, b.Size()+1), digest)
		return err
	}
	_, err := copyVerified(ctx, f, blob.Reader(b), digest)
	return err
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteFile makes a file hold data, durably, or leaves it as it was.
func WriteFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return space(err)
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return space(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// lacks says of a file that is not there whether the directory is.
func (d *Dir) lacks(digest string, err error) error {
	if _, gone := os.Stat(d.cfg.Path); gone != nil {
		return unmounted(d.cfg.Path, gone)
	}
	return missing(d.cfg.Path, digest, err)
}

func unmounted(path string, err error) error {
	return errs.New(errs.Unavailable, "the directory of the store is not there: %w", err).
		With("mount " + path + ", or make it")
}

// space tells a full disk from other errors.
func space(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return errs.New(errs.NoSpace, "%w", err)
	}
	return err
}

func (d *Dir) open(digest string) (blob.Blob, error) {
	path, err := d.path(digest)
	if err != nil {
		return nil, err
	}
	b, err := blob.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, d.lacks(digest, err)
	}
	return b, err
}

// Get reads from the file.
func (d *Dir) Get(_ context.Context, digest string, offset, length int64) (io.ReadCloser, error) {
	b, err := d.open(digest)
	if err != nil {
		return nil, err
	}
	if length, err = checkRange(offset, length, b.Size()); err != nil {
		b.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(b, offset, length), b}, nil
}

// Stat describes the file.
func (d *Dir) Stat(_ context.Context, digest string) (Info, error) {
	path, err := d.path(digest)
	if err != nil {
		return Info{}, err
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, d.lacks(digest, err)
	}
	if err != nil {
		return Info{}, err
	}
	return Info{Digest: digest, Size: st.Size(), Modified: st.ModTime()}, nil
}

// List returns the files that are named like blobs.
func (d *Dir) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		entries, err := os.ReadDir(d.cfg.Path)
		if err != nil {
			yield(Info{}, err)
			return
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), d.cfg.Suffix)
			if _, digest := blob.Hex("sha256:" + name); !ok || !digest || !e.Type().IsRegular() {
				continue
			}
			info, err := d.Stat(ctx, "sha256:"+name)
			if errs.Is(err, errs.NotFound) {
				continue // deleted since
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Delete removes the file, durably.
func (d *Dir) Delete(_ context.Context, digest string) error {
	path, err := d.path(digest)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(d.cfg.Path)
}
