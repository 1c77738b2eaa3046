package jobfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/spawner"
)

// Source is where what an app has printed and left is fetched: its agent, or what came back from another host.
type Source interface {
	// Log returns the output from a byte on. With follow it goes on until the app has exited.
	Log(ctx context.Context, from int64, follow bool) (io.ReadCloser, error)
	// File returns an output file, and its size.
	File(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

// Fetch brings a job's output files here. What can never be had is named in lost; an error is worth a repetition.
func (s *Store) Fetch(ctx context.Context, id spawner.ID, from Source, files []control.File) (lost []string, _ error) {
	left := s.cfg.Output
	for _, f := range files {
		size, err := s.fetch(ctx, id, from, f.Name, left)
		if Permanent(err) && !Full(err) {
			lost = append(lost, fmt.Sprintf("file %s: %v", f.Name, err))
		} else if err != nil {
			return nil, fmt.Errorf("fetch file %s of %s: %w", f.Name, id, err)
		}
		left -= size
	}
	return lost, nil
}

// fetch brings one output file here, of at most so many bytes as are left to its job, and returns its size; it appears
// whole or not at all. It is copied: the file that came back is the user's, who could write to it as long as it is
// there.
func (s *Store) fetch(ctx context.Context, id spawner.ID, from Source, name string, left int64) (int64, error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return 0, errs.Bad("file", name, "a name without directories")
	}
	dir := s.outputDir(id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	if info, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return info.Size(), nil // from an earlier try; the app has exited, so it is the same
	}
	r, size, err := from.File(ctx, name)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if err := s.fits(dir, size, left); err != nil {
		return 0, err
	}
	return size, writeFile(filepath.Join(dir, name), io.LimitReader(untilDone(ctx, r), size))
}

// fits refuses a file that is too large, for its job or for the disk.
func (s *Store) fits(dir string, size, left int64) error {
	switch room, err := s.cfg.Room(dir); {
	case err != nil:
		return err
	case size > control.FileLimit:
		return errTooLarge
	case size > left:
		return errs.New(errs.Invalid, "a job's output files have at most %s in all", units.MemoryWords(s.cfg.Output))
	case size > room:
		return errFull
	default:
		return nil
	}
}

// Files lists a job's output files.
func (s *Store) Files(id spawner.ID) ([]control.File, error) {
	entries, err := os.ReadDir(s.outputDir(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files := []control.File{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name()[0] != '.' {
			files = append(files, control.File{Name: e.Name(), Size: info.Size()})
		}
	}
	return files, nil
}

// File opens one of a job's output files, and returns its size. The caller closes it.
func (s *Store) File(id spawner.ID, name string) (io.ReadCloser, int64, error) {
	root, err := os.OpenRoot(s.outputDir(id))
	if err != nil {
		return nil, 0, noFile(id, name)
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, 0, noFile(id, name)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, 0, noFile(id, name)
	}
	return f, info.Size(), nil
}

func noFile(id spawner.ID, name string) error {
	return errs.New(errs.NotFound, "job %s has no output file %q", id, name).
		With("`slipway jobs files` lists what it has, once it has ended")
}
