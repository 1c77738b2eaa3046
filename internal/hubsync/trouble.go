package hubsync

import (
	"context"
	"log/slog"
	"time"
)

// trouble logs that something does not work when it begins and when it is over, and not at each try between.
type trouble struct {
	log   *slog.Logger
	what  string
	since time.Time // zero: there is none
}

// note takes how a try came out.
func (t *trouble) note(ctx context.Context, err error) {
	switch {
	case err == nil && !t.since.IsZero():
		t.log.Info("works again", "what", t.what, "after", time.Since(t.since).Round(time.Second))
		t.since = time.Time{}
	case err != nil && t.since.IsZero() && ctx.Err() == nil:
		t.log.Warn("cannot "+t.what, "err", err, "cause", cause(err))
		t.since = time.Now()
	}
}

// cause gives what lies behind an error, which its message leaves out.
func cause(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}
