package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/internal/units"
	"slipway/internal/worker"
	"slipway/spawner"
)

// What is borne of files that came back: they are the user's, who may have put anything there.
const (
	mostEnd  = 1 << 20
	mostTail = 64 << 10
)

// Sandbox is the directory of a sandbox: what has travelled to the worker, and what came back.
type Sandbox string

// open opens a regular file that came back. No link in the sandbox leads out of it, and the file is the account's to
// which the sandbox was given, in which alone it stands: a second name of somebody else's file is none that came back.
func (b Sandbox) open(name string) (*os.File, int64, error) {
	root, err := os.OpenRoot(string(b))
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	f, err := root.OpenFile(path.Join(worker.OutDir, name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	own, err2 := root.Stat(".")
	if err = errors.Join(err, err2); err == nil {
		err = cameBack(info, own)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// cameBack refuses what cannot have come back into a sandbox.
func cameBack(file, sandbox fs.FileInfo) error {
	f, ok := file.Sys().(*syscall.Stat_t)
	b, ok2 := sandbox.Sys().(*syscall.Stat_t)
	switch {
	case !file.Mode().IsRegular():
		return errors.New("it is no regular file")
	case !ok || !ok2 || f.Nlink != 1 || f.Uid != b.Uid:
		return errors.New("it is not the job's own")
	}
	return nil
}

// read reads a small file that came back.
func (b Sandbox) read(name string, most int64) ([]byte, error) {
	f, size, err := b.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, fmt.Errorf("%s has %d bytes", name, size)
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// end returns the worker's account of how the run ended.
func (b Sandbox) end() (worker.End, error) {
	data, err := b.read(worker.EndFile, mostEnd)
	if err != nil {
		return worker.End{}, err
	}
	return parseEnd(data)
}

// parseEnd reads a worker's account, and takes from it what a user may say.
func parseEnd(data []byte) (worker.End, error) {
	var e worker.End
	if err := json.Unmarshal(data, &e); err != nil {
		return worker.End{}, fmt.Errorf("read how the run ended: %w", err)
	}
	e.ExitCode = min(max(e.ExitCode, 0), 255)
	e.Reason, e.Remedy, e.Host = OneLine(e.Reason, 4*MaxReason), OneLine(e.Remedy, 4*MaxReason), OneLine(e.Host, MaxName)
	if len(e.Tail) > mostTail {
		e.Tail = e.Tail[len(e.Tail)-mostTail:]
	}
	return e, nil
}

// Explain puts the worker's words into what the batch system says of an ended job. Where that has a reason of its own,
// it is what ended the job.
func (b Sandbox) Explain(o *spawner.Observation) {
	e, err := b.end()
	if err != nil {
		return
	}
	o.Tail = e.Tail
	if o.Reason == "" {
		o.ExitCode, o.Reason, o.Remedy = e.ExitCode, e.Reason, e.Remedy
	}
	if o.Host == "" {
		o.Host = e.Host
	}
}

// stagedOutput is a sandbox whose run is over.
type stagedOutput struct {
	Sandbox
	id     spawner.ID
	status control.Status
}

var _ spawner.StagedOutput = stagedOutput{}

// Output returns what the run of a workload has left.
func (b Sandbox) Output(id spawner.ID) (spawner.StagedOutput, error) {
	r := stagedOutput{Sandbox: b, id: id}
	var err error
	switch r.status, err = r.lastWord(); {
	case momentary(err):
		return nil, fmt.Errorf("look at what %s has left: %w", id, err)
	case err != nil:
		return nil, errs.New(errs.NotFound, "nothing of %s has come back: %w", id, err)
	}
	return r, nil
}

// lastWord is the agent's last status; where it has left none, its worker's account in the form of one.
func (r stagedOutput) lastWord() (control.Status, error) {
	data, err := r.read(worker.StatusFile, worker.MaxStatus)
	if err == nil {
		if s, err := control.ParseStatus(data); err == nil && s.State == control.Exited {
			return s, nil
		}
	}
	e, err := r.end()
	if err != nil {
		return control.Status{}, err
	}
	s := control.Status{
		State: control.Exited, ExitCode: e.ExitCode, Reason: e.Reason, Started: e.Started, Ended: e.Ended,
	}
	if f, size, err := r.open(worker.LogFile); err == nil {
		s.LogSize = min(size, worker.MaxLog)
		return s, f.Close()
	}
	return s, nil
}

// Status returns the agent's last word.
func (r stagedOutput) Status() control.Status { return r.status }

// Log opens what the app printed.
func (r stagedOutput) Log(_ context.Context, from int64) (io.ReadCloser, error) {
	f, _, err := r.open(worker.LogFile)
	if err != nil {
		return nil, r.lacks("output", err)
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(errs.Bad("from", from, "an offset of 0 or more"), f.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, worker.MaxLog-from), f}, nil
}

// File opens an output file.
func (r stagedOutput) File(_ context.Context, name string) (io.ReadCloser, int64, error) {
	if err := control.CheckName(name); err != nil {
		return nil, 0, err
	}
	f, size, err := r.open(path.Join(worker.FilesDir, name))
	if err != nil {
		return nil, 0, r.lacks("file "+name, err)
	}
	return f, size, nil
}

// Changes opens what a session has changed. It is not there where its worker has told of more than came back.
func (r stagedOutput) Changes(context.Context) (io.ReadCloser, error) {
	f, size, err := r.open(worker.PackFile)
	if err != nil {
		return nil, r.lacks("changes", err)
	}
	if e, err := r.end(); err == nil && size < e.PackSize {
		cut := errs.New(
			errs.Invalid, "only %s of the %s of it came back", units.MemoryWords(size), units.MemoryWords(e.PackSize),
		)
		return nil, errors.Join(cut, f.Close())
	}
	return f, nil
}

func (r stagedOutput) lacks(what string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errs.New(errs.NotFound, "no %s of %s has come back", what, r.id)
	case momentary(err):
		return fmt.Errorf("open the %s of %s: %w", what, r.id, err)
	default:
		return errs.New(errs.NotFound, "the %s of %s cannot be read: %w", what, r.id, err)
	}
}

// momentary reports whether an error says something of this host and nothing of what came back, which may yet be read.
func momentary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.ESTALE, syscall.ETIMEDOUT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
