package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// workdir is a job's directory: inputs are written into it before the launch, outputs are read from it after the end.
type workdir struct {
	dir string

	mu     sync.Mutex
	inputs map[string]bool
}

func newWorkdir(dir string) *workdir { return &workdir{dir: dir, inputs: map[string]bool{}} }

// put writes an input. It is there whole or not at all.
func (w *workdir) put(name string, r io.Reader) error {
	if err := control.CheckName(name); err != nil {
		return err
	}
	f, err := os.CreateTemp(w.dir, control.TempPrefix)
	if err != nil {
		return noSpace(name, err)
	}
	n, err := io.Copy(f, io.LimitReader(r, control.FileLimit+1))
	err = errors.Join(err, f.Chmod(0o700), f.Close())
	if err == nil && n > control.FileLimit {
		err = errs.Bad("file", name, fmt.Sprintf("a file has at most %d bytes", control.FileLimit))
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(w.dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return noSpace(name, err)
	}
	w.mu.Lock()
	w.inputs[name] = true
	w.mu.Unlock()
	return nil
}

// takeInputs makes inputs of what lies in the directory already.
func (w *workdir) takeInputs() {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		w.inputs[e.Name()] = true
	}
}

func noSpace(name string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errs.New(errs.NoSpace, "write the input %q: %w", name, err).
			With("fewer or smaller input files, or a job with more memory")
	}
	return fmt.Errorf("write the input %q: %w", name, err)
}

// outputs lists the regular files that lie in the directory and are no inputs.
func (w *workdir) outputs() []control.File {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []control.File
	for _, e := range entries {
		if !e.Type().IsRegular() || w.inputs[e.Name()] || control.CheckName(e.Name()) != nil {
			continue
		}
		if st, err := e.Info(); err == nil {
			list = append(list, control.File{Name: e.Name(), Size: st.Size()})
		}
	}
	return list
}

// open opens a regular file of the directory and gives its size. It follows no link and waits for no pipe.
func (w *workdir) open(name string) (*os.File, int64, error) {
	if err := control.CheckName(name); err != nil {
		return nil, 0, err
	}
	f, err := os.OpenFile(filepath.Join(w.dir, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, errs.New(errs.NotFound, "file %q: %w", name, err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errs.New(errs.NotFound, "file %q is no regular file", name)
	}
	if err == nil && st.Size() > control.FileLimit {
		err = errs.New(errs.Invalid, "file %q has %d bytes", name, st.Size()).
			With(fmt.Sprintf("an output has at most %d bytes: write it to your home instead", control.FileLimit))
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}
