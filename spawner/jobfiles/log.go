package jobfiles

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"slipway/internal/agent/control"
	"slipway/internal/ctxio"
	"slipway/internal/errs"
	"slipway/spawner"
)

func (s *Store) logFile(id spawner.ID) string { return filepath.Join(s.Dir(id), "log") }

// CopyLog appends a job's log to the copy here, and calls wrote after each part. The copy's size is the offset to go on
// from, so nothing is lost. The caller has only one copy of a log going at a time, so nothing is doubled. Of an agent
// that prints without end no more is kept than control.LogLimit.
func (s *Store) CopyLog(ctx context.Context, id spawner.ID, from Source, follow bool, wrote func()) error {
	f, err := os.OpenFile(s.logFile(id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil || at >= control.LogLimit {
		return err
	}
	r, err := from.Log(ctx, at, follow)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(announcer{f, wrote}, io.LimitReader(r, control.LogLimit-at))
	return err
}

// announcer lets readers of a growing log know that there is more.
type announcer struct {
	to    io.Writer
	wrote func()
}

// Write writes.
func (a announcer) Write(p []byte) (int, error) {
	n, err := a.to.Write(p)
	a.wrote()
	return n, err
}

// LogSize returns how many bytes of a job's log are here.
func (s *Store) LogSize(id spawner.ID) int64 {
	info, err := os.Stat(s.logFile(id))
	if err != nil {
		return 0
	}
	return info.Size()
}

// OpenLog opens the copy of a job's log from byte from on. A log that is shorter than that is another than the reader
// has had: that of a later try, which is read from its start. The caller closes it.
func (s *Store) OpenLog(id spawner.ID, from int64) (*os.File, error) {
	f, err := os.OpenFile(s.logFile(id), os.O_RDONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // its directory is made when it starts
		if err = os.MkdirAll(s.Dir(id), 0o711); err == nil {
			f, err = os.OpenFile(s.logFile(id), os.O_RDONLY|os.O_CREATE, 0o600)
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
	return f, nil
}

// Watch reports whether a job goes on, and returns a channel that is closed at its next change, also of its log.
type Watch func() (changed <-chan struct{}, active bool)

// FollowLog is OpenLog, and the log goes on until the job has ended.
func (s *Store) FollowLog(ctx context.Context, id spawner.ID, from int64, watch Watch) (io.ReadCloser, error) {
	f, err := s.OpenLog(id, from)
	if err != nil {
		return nil, err
	}
	l := &follower{f: f, path: s.logFile(id), watch: watch}
	return struct {
		io.Reader
		io.Closer
	}{ctxio.Reader(ctx, l.read), l}, nil
}

// follower reads a growing log until its job has ended.
type follower struct {
	f     *os.File
	path  string
	watch Watch
}

// read waits for more at the end of what there is.
func (f *follower) read(ctx context.Context, p []byte) (int, error) {
	for {
		changed, active := f.watch()
		n, err := f.f.Read(p)
		if n > 0 || (err != nil && err != io.EOF) {
			return n, err
		}
		if f.restart() {
			continue
		}
		if !active {
			return 0, io.EOF
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-changed:
		}
	}
}

// restart goes on with the log of a job that was put back in line and prints from the start; false when there is none.
func (f *follower) restart() bool {
	now, err := os.Open(f.path)
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

// TailLog returns the last lines of the copy of a job's log.
func (s *Store) TailLog(id spawner.ID, lines int) (string, error) {
	f, err := s.OpenLog(id, max(0, s.LogSize(id)-TailBytes))
	if err != nil {
		return "", err
	}
	defer f.Close()
	return Tail(f, lines)
}

// TailBytes is how much of the end of an output Tail looks at: whoever calls it opens the output so far before its end.
const TailBytes = 64 << 10

// Tail returns the last lines of an output, as valid UTF-8.
func Tail(r io.Reader, lines int) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, 2*TailBytes)) // it may have grown since it was opened
	return lastLines(b, lines), err
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
