package images

import (
	"context"
	"fmt"
	"strings"

	"slipway/images/graft"
	"slipway/images/manifest"
	"slipway/internal/errs"
)

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
	return errs.New(
		errs.OverQuota, "the session has changed %d files, and a freeze takes at most %d; most are in %s", files,
		l.cfg.MaxFiles, strings.Join(where, ", "),
	).With("remove what is not needed, or move it to a volume or below /tmp, and freeze again")
}
