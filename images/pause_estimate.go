package images

import (
	"context"
	"fmt"
	"strings"
	"time"

	"slipway/images/graft"
	"slipway/images/manifest"
	"slipway/internal/errs"
)

// What each changed file costs in the pause, as `go test -bench Pause ./images/graft` measures it: the processor's
// time, which is that of a machine with nothing else to do, and on a machine with a dozen times as much to do as it
// can. Of a walk before it, a pause takes 0.35 to 0.45.
const (
	leastPause = 2 * time.Microsecond
	mostPause  = 6 * time.Microsecond
	worthWords = 2 * time.Second // a shorter pause is not told ahead
)

// pauseFor tells how long a source will stand still that has changed files, and was walked in took. Zero: not worth a
// word.
func pauseFor(files int64, took time.Duration) time.Duration {
	n := time.Duration(files)
	about := min(max(took/2, n*leastPause), n*mostPause)
	if about < worthWords {
		return 0
	}
	return about.Round(time.Second)
}

func (l *Library) tooMany(files int64) bool { return l.cfg.MaxFiles > 0 && files > l.cfg.MaxFiles }

// bearable refuses a freeze of more files than there is memory for.
func (l *Library) bearable(ctx context.Context, req Request, files int64) error {
	if !l.tooMany(files) {
		return nil
	}
	return l.crowded(ctx, req, files)
}

// crowded is the error of too many files. It names where most of them are.
func (l *Library) crowded(ctx context.Context, req Request, files int64) error {
	crowds, err := graft.Crowds(ctx, req.Source.Upper, l.stripOf(req))
	if err != nil {
		return err
	}
	var where []string
	for _, c := range crowds {
		where = append(where, fmt.Sprintf("%s (%d)", manifest.Text(c.Path), c.Files))
	}
	return errs.New(errs.OverQuota, "the session has changed %d files, and a freeze takes at most %d; most are in %s", files, l.cfg.MaxFiles, strings.Join(where, ", ")).
		With("remove what is not needed, or move it to a volume or below /tmp, and freeze again")
}
