package docker

import (
	"context"
	"errors"
	"fmt"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"slipway/internal/errs"
)

// gone reports whether the engine says that there is no such thing.
func gone(err error) bool { return cerrdefs.IsNotFound(err) }

// explain turns an error of the engine's client into one of a kind. The words say what was attempted.
func (b *Backend) explain(err error, format string, args ...any) error {
	return b.tell(err, ofRuns(), fmt.Sprintf(format, args...))
}

func (b *Backend) tell(err error, sayings []saying, what string) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if client.IsErrConnectionFailed(err) {
		return errs.New(errs.Unavailable, "%s: the Docker Engine does not answer at %s: %w", what, b.host, err).
			With("start Docker (`systemctl start docker`), and let this user reach the socket " + b.host)
	}
	if s, known := means(err.Error(), sayings); known {
		return errs.New(s.kind, "%s: %s: %w", what, s.plain, err).With(s.remedy)
	}
	switch {
	case cerrdefs.IsConflict(err):
		return errs.New(errs.Conflict, "%s: %w", what, err)
	case cerrdefs.IsInvalidArgument(err):
		return errs.New(errs.Invalid, "%s: %w", what, err)
	case cerrdefs.IsNotFound(err):
		return errs.New(errs.NotFound, "%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
