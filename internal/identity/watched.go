package identity

import (
	"context"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// watched is a file of the site's that is read again when it has changed. Its file system may be another machine's, and
// dead: who asks waits for it a while, whoever asks after that not at all, and only one look is ever under way. It is
// safe for concurrent use.
type watched[T any] struct {
	path, field string
	parse       func(path, text string) (T, error)
	stat        func(path string) (fs.FileInfo, error)

	mu    sync.Mutex // guards all below; nobody who touches the disk has it
	under *look[T]   // way; nil: none
	last  *look[T]   // that was done
}

// look is one at a watched file.
type look[T any] struct {
	over  <-chan struct{} // closed when it is done, or has taken too long
	info  fs.FileInfo     // of what was read; nil: it could not be
	value T
	err   error
}

const (
	mostFile = 64 << 20        // bytes that are read
	mostLook = 5 * time.Second // that a look is waited for
)

func watch[T any](path, field string, parse func(path, text string) (T, error)) *watched[T] {
	return &watched[T]{path: path, field: field, parse: parse, stat: os.Stat}
}

// now returns what is in the file, or why it cannot be used.
func (w *watched[T]) now() (T, error) {
	l := w.looking()
	<-l.over
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.under == l {
		var none T
		return none, errs.New(errs.Unavailable, "%s: the file system of %s does not answer", w.field, w.path).
			With("the administrator looks at it")
	}
	return l.value, l.err
}

// current is now of who has used the file before: what is wrong with it may be put right at any time.
func (w *watched[T]) current() (T, error) {
	value, err := w.now()
	if err != nil && !errs.Is(err, errs.Unavailable) {
		err = errs.New(errs.Unavailable, "%s", errs.Brief(err)).With(remedyOf(err))
	}
	return value, err
}

// looking returns the look that is under way, or begins one.
func (w *watched[T]) looking() *look[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.under != nil {
		return w.under
	}
	over, done := context.WithTimeout(context.Background(), mostLook)
	l, before := &look[T]{over: over.Done()}, w.last
	w.under = l
	go func() {
		defer done()
		w.read(l, before)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.under, w.last = nil, l
	}()
	return l
}

// read does a look. What was read before is not read again while it is the same file: a failure to read one is none of
// its contents.
func (w *watched[T]) read(l, before *look[T]) {
	info, err := w.stat(w.path)
	switch {
	case err != nil:
		l.err = errs.New(errs.Unavailable, "%s: %w", w.field, err).With("the administrator puts the file back")
		return
	case before != nil && before.info != nil && same(before.info, info):
		l.info, l.value, l.err = before.info, before.value, before.err
		return
	}
	if l.err = w.trusted(info); l.err != nil {
		return
	}
	text, err := os.ReadFile(w.path)
	if err != nil {
		l.err = errs.New(errs.Unavailable, "%s: %w", w.field, err).With("the administrator looks at the file")
		return
	}
	l.info = info
	l.value, l.err = w.parse(w.path, string(text))
}

// trusted refuses a file that others could write.
func (w *watched[T]) trusted(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || info.Size() > mostFile:
		return errs.Bad(w.field, w.path, "a file of at most 64 MiB")
	case info.Mode().Perm()&0o022 != 0 || !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return errs.New(errs.Invalid, "%s: %s can be written by others than root", w.field, w.path).
			With("chown root " + w.path + "; chmod go-w " + w.path)
	}
	return nil
}

// same reports whether a file is what it was: not even its mode was changed.
func same(before, now fs.FileInfo) bool {
	a, okA := before.Sys().(*syscall.Stat_t)
	b, okB := now.Sys().(*syscall.Stat_t)
	return okA && okB && a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}
