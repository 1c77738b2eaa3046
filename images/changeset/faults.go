package changeset

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// leftForLater says whether an error is one of a single entry, which may be gone or whole in the last pass.
func leftForLater(err error) bool {
	return errors.Is(err, errMoved) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.ELOOP)
}

// named tells which entry an error is about.
func named(path string, err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errMoved):
		return errs.New(errs.Conflict, "/%s: %w", path, err).With("freeze again when nothing writes to it")
	case errs.KindOf(err) != errs.Internal:
		return err
	}
	if _, known := errors.AsType[*pathError](err); known {
		return err
	}
	return &pathError{path, err}
}

// pathError names an entry, once: directories above it let it pass.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return "/" + e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }
