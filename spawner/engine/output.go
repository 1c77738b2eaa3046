package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/memsize"
	"slipway/spawner"
)

var (
	errTooLarge = fmt.Errorf("the file is larger than %s", memsize.Words(control.FileLimit))
	errFull     = errs.New(errs.NoSpace, "the service's disk is full")
)

// full reports whether an error is that of the service's own disk, which does not stay full.
func full(err error) bool {
	return errors.Is(err, errFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// tailLines is how many last lines of its output an outcome keeps; tailBytes bounds them.
const (
	tailLines = 40
	tailBytes = 64 << 10
)

// fetch brings one output file here, of at most so many bytes as are left to its job, and gives its size; it appears whole or not at
// all. It is copied: the file that came back is the user's, who could write to it as long as it is there.
func (m *Manager) fetch(ctx context.Context, id spawner.ID, from source, name string, left int64) (int64, error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return 0, errs.Bad("file", name, "a name without directories")
	}
	dir := filepath.Join(m.dir(id), "files")
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
	if err := m.fits(dir, size, left); err != nil {
		return 0, err
	}
	return size, writeFile(filepath.Join(dir, name), io.LimitReader(heeding{ctx, r}, size))
}

// fits refuses a file that is too large, for its job or for the disk.
func (m *Manager) fits(dir string, size, left int64) error {
	switch room, err := m.cfg.Room(dir); {
	case err != nil:
		return err
	case size > control.FileLimit:
		return errTooLarge
	case size > left:
		return errs.New(errs.Invalid, "a job's output files have at most %s in all", memsize.Words(m.cfg.Output))
	case size > room:
		return errFull
	default:
		return nil
	}
}

// What stays free of a disk: the service's records need it as well.
const (
	leastFree = 2 << 30
	freePart  = 50 // or one part in so many of the disk, if that is less
)

// roomIn returns how many bytes of output a directory's disk may take.
func roomIn(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("look at the room in %s: %w", dir, err)
	}
	return int64(st.Bavail)*st.Bsize - min(leastFree, int64(st.Blocks)*st.Bsize/freePart), nil
}

// heeding reads until ctx ends.
type heeding struct {
	ctx context.Context // of the one copy that reads
	r   io.Reader
}

// Read reads.
func (h heeding) Read(p []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.r.Read(p)
}

func writeFile(path string, r io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(path), partial+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(r, control.FileLimit+1))
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return errs.New(errs.NoSpace, "the service's disk is full: %w", err)
	case err != nil:
		return err
	case n > control.FileLimit:
		return errTooLarge
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Files lists a job's output files.
func (m *Manager) Files(ctx context.Context, c spawner.Caller, id spawner.ID) ([]control.File, error) {
	if _, err := m.Get(ctx, c, id); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(m.dir(id), "files"))
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

// File opens one of a job's output files. The caller closes it.
func (m *Manager) File(ctx context.Context, c spawner.Caller, id spawner.ID, name string) (io.ReadCloser, int64, error) {
	if _, err := m.Get(ctx, c, id); err != nil {
		return nil, 0, err
	}
	root, err := os.OpenRoot(filepath.Join(m.dir(id), "files"))
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
	return errs.New(errs.NotFound, "job %s has no output file %q", id, name).With("`slipway jobs files` lists what it has, once it has ended")
}

// Log opens a workload's output from byte from on: a job's from the copy here, a session's from its agent. A job's that is shorter than
// that is another than the reader has had: that of a later try, which she gets from its start. With follow it goes on until the workload
// has ended. The caller closes it.
func (m *Manager) Log(ctx context.Context, c spawner.Caller, id spawner.ID, from int64, follow bool) (io.ReadCloser, error) {
	w, err := m.Get(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if w.Kind != spawner.Job {
		return m.sessionLog(ctx, w, from, follow)
	}
	f, err := os.OpenFile(m.logFile(id), os.O_RDONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // its directory is made when it starts
		if err = os.MkdirAll(m.dir(id), 0o711); err == nil {
			f, err = os.OpenFile(m.logFile(id), os.O_RDONLY|os.O_CREATE, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && from > info.Size() {
		from = 0
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		f.Close()
		return nil, errs.Bad("from", from, "an offset of 0 or more")
	}
	if !follow {
		return f, nil
	}
	return &follower{f: f, ctx: ctx, m: m, id: id}, nil
}

func (m *Manager) sessionLog(ctx context.Context, w spawner.Workload, from int64, follow bool) (io.ReadCloser, error) {
	if w.Phase.Active() && w.Phase != spawner.Pending {
		return m.cfg.Agents.Agent(w.ID).Log(ctx, from, follow)
	}
	if w.Outcome != nil {
		return io.NopCloser(bytes.NewBufferString(w.Outcome.Tail)), nil
	}
	return io.NopCloser(&bytes.Buffer{}), nil
}

// follower reads a growing log until its job has ended.
type follower struct {
	f   *os.File
	ctx context.Context // of the one request that reads
	m   *Manager
	id  spawner.ID
}

// Read waits for more at the end of what there is.
func (f *follower) Read(p []byte) (int, error) {
	for {
		e, ok := f.m.snapshot(f.id)
		n, err := f.f.Read(p)
		if n > 0 || (err != nil && err != io.EOF) {
			return n, err
		}
		if f.restart() {
			continue
		}
		if !ok || !e.Phase.Active() {
			return 0, io.EOF
		}
		select {
		case <-f.ctx.Done():
			return 0, f.ctx.Err()
		case <-e.changed:
		}
	}
}

// restart goes on with the log of a job that was put back in line and prints from the start; false when there is none.
func (f *follower) restart() bool {
	now, err := os.Open(f.m.logFile(f.id))
	if err != nil {
		return false
	}
	was, err := f.f.Stat()
	is, err2 := now.Stat()
	if err != nil || err2 != nil || os.SameFile(was, is) {
		now.Close()
		return false
	}
	f.f.Close()
	f.f = now
	return true
}

// Close closes the log.
func (f *follower) Close() error { return f.f.Close() }

// Tail returns the last lines of a workload's output.
func (m *Manager) Tail(ctx context.Context, c spawner.Caller, id spawner.ID, lines int) (string, error) {
	w, err := m.Get(ctx, c, id)
	if err != nil {
		return "", err
	}
	return m.tail(ctx, w, lines)
}

func (m *Manager) tail(ctx context.Context, w spawner.Workload, lines int) (string, error) {
	r, err := m.Log(ctx, spawner.Caller{User: w.Owner, Hub: w.Hub}, w.ID, m.tailFrom(w), false)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, 2*tailBytes))
	return lastLines(b, lines), err
}

// tailFrom returns the offset where the last tailBytes of a workload's output begin.
func (m *Manager) tailFrom(w spawner.Workload) int64 {
	if w.Kind == spawner.Job {
		info, err := os.Stat(m.logFile(w.ID))
		if err != nil {
			return 0
		}
		return max(0, info.Size()-tailBytes)
	}
	e, _ := m.snapshot(w.ID)
	return max(0, e.status.LogSize-tailBytes)
}

// lastLines returns the last n lines of b, as valid UTF-8.
func lastLines(b []byte, n int) string {
	b = bytes.TrimRight(b, "\n")
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' {
			if n--; n == 0 {
				b = b[i+1:]
				break
			}
		}
	}
	return string(bytes.ToValidUTF8(b, []byte("\uFFFD")))
}
