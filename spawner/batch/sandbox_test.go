package batch

import (
	"io/fs"
	"syscall"
	"testing"

	"slipway/internal/errs"
)

// TestHostThatCannotRead: what this host cannot read for the moment has come back all the same.
func TestHostThatCannotRead(t *testing.T) {
	r := stagedOutput{id: "j-1"}
	for _, err := range []error{syscall.EMFILE, syscall.EIO} {
		if err := r.lacks("file x", &fs.PathError{Op: "open", Path: "x", Err: err}); errs.Is(err, errs.NotFound) {
			t.Errorf("%v is told of as lost", err)
		}
	}
	for _, err := range []error{fs.ErrNotExist, syscall.ELOOP} {
		if err := r.lacks("file x", err); !errs.Is(err, errs.NotFound) {
			t.Errorf("%v is waited for", err)
		}
	}
}
