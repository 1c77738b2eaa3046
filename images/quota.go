package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"slipway/images/blob"
	"slipway/images/graft"
	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// Usage says what an owner's environments take.
type Usage struct {
	Environments int
	Own          int64           // bytes that no base has; each environment counted once
	Shared       int64           // bytes of the bases under them, each counted once; others may stand on them too
	Bounds       []records.Bound // his own first
	Warnings     []string
}

// The parts of a quota, in percent, from which on its owner is warned.
const (
	nearlyFull = 80
	almostFull = 95
)

// Usage adds up what an owner has.
func (l *Library) Usage(ctx context.Context, owner string) (Usage, error) {
	all, err := l.Records.List(owner)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{}
	bases := map[string]bool{}
	for _, e := range records.Once(all) {
		u.Environments++
		u.Own += e.Own
		if d, err := l.document(e.Digest); err == nil && d.Base != nil && !bases[d.Base.Digest] {
			bases[d.Base.Digest] = true
			u.Shared += d.Base.Size
		}
	}
	if u.Bounds, err = l.Records.Bounds(owner, ""); err != nil {
		return Usage{}, err
	}
	for _, b := range u.Bounds {
		if b.Percent() >= nearlyFull {
			u.Warnings = append(u.Warnings, l.warning(ctx, owner, b))
		}
	}
	return u, nil
}

// warning tells an owner of a bound that is close.
func (l *Library) warning(ctx context.Context, owner string, b records.Bound) string {
	words := fmt.Sprintf("%s (%d %%)", b, b.Percent())
	if b.Percent() < almostFull {
		return words
	}
	return words + "; a freeze that needs more is refused: " + l.advice(ctx, owner)
}

// Room returns how many bytes more an owner's environments may take, when one of them, instead, has gone.
func (l *Library) Room(ctx context.Context, owner, instead string) (int64, error) {
	return l.roomFor(ctx, owner, instead, "", 1)
}

// roomFor is room, with an advice. It asks for what is in use, so it is not for who holds a lock.
func (l *Library) roomFor(ctx context.Context, owner, instead, digest string, need int64) (int64, error) {
	left, err := l.Records.Room(owner, instead, digest, need)
	if full, ok := errors.AsType[*errs.Error](err); ok && full.Kind == errs.OverQuota {
		return 0, full.With(l.advice(ctx, owner))
	}
	return left, err
}

// within passes on what is written as long as it fits into what an owner may still take, so that no more is written
// than may stay.
func (l *Library) within(ctx context.Context, req Request, to io.Writer) io.Writer {
	return &quotaWriter{left: req.room, to: to, full: func() error { return l.outgrown(ctx, req) }}
}

// outgrown is the error of changes for which there is no room. It names what of them takes the most.
func (l *Library) outgrown(ctx context.Context, req Request) error {
	_, err := l.roomFor(ctx, req.Owner, req.Instead, "", req.room+1)
	full, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return cmp.Or(err, error(errs.New(
			errs.OverQuota, "the changes take more than the %s that were left of your quota", units.DiskWords(req.room),
		).With("freeze again")))
	}
	files, err := graft.Largest(ctx, req.Source.Upper, l.stripOf(req))
	if err != nil || len(files) == 0 {
		return full
	}
	var largest []string
	for _, f := range files {
		largest = append(largest, fmt.Sprintf("%s (%s)", manifest.Text(f.Path), units.DiskWords(f.Bytes)))
	}
	return full.With("the largest files that have changed are " + strings.Join(largest, ", ") +
		": remove what is not needed, or move it to a volume or below /tmp; or " + full.Remedy)
}

// most is how many environments an advice names.
const most = 3

// advice names what an owner could do without: his largest environments that no job and no session uses, where they
// make a difference.
func (l *Library) advice(ctx context.Context, owner string) string {
	all, err := l.Records.List(owner)
	used, unknown := l.inUse(ctx)
	if err != nil || unknown != nil {
		return records.LookAtUsage
	}
	all = slices.DeleteFunc(
		records.Once(records.LeadingFirst(all)),
		func(e records.Environment) bool { return used[e.Digest] || e.Own == 0 },
	)
	if len(all) == 0 {
		return records.LookAtUsage + "; all of yours are in use by sessions and jobs"
	}
	least := l.worthwhile(owner)
	all = slices.DeleteFunc(all, func(e records.Environment) bool { return e.Own < least })
	slices.SortStableFunc(all, func(a, b records.Environment) int { return cmp.Compare(b.Own, a.Own) })
	var names []string
	for _, e := range all[:min(most, len(all))] {
		names = append(names, shortName(e))
	}
	if len(names) == 0 {
		return records.LookAtUsage
	}
	return "remove with `slipway envs rm` what nothing uses, such as " + strings.Join(names, ", ") + "; " + records.LookAtUsage
}

// worthwhile is how much an environment takes at least that is worth removing: a hundredth of the smallest quota.
func (l *Library) worthwhile(owner string) int64 {
	all, err := l.Records.Bounds(owner, "")
	if err != nil || len(all) == 0 {
		return 0
	}
	return slices.MinFunc(all, func(a, b records.Bound) int { return cmp.Compare(a.Quota, b.Quota) }).Quota / 100
}

// shortName names an environment, with all its names, by the beginning of its digest, and says what it takes.
func shortName(e records.Environment) string {
	words := strings.TrimPrefix(e.Digest, blob.Prefix)[:12] + " ("
	if e.Name != "" && !e.Moved {
		words += strings.TrimSuffix(e.Name+":"+e.Tag, ":") + ", "
	}
	return words + units.DiskWords(e.Own) + ")"
}

// quotaWriter breaks off what outgrows a quota.
type quotaWriter struct {
	left int64
	to   io.Writer
	full func() error
}

// Write passes on what there is room for.
func (w *quotaWriter) Write(p []byte) (int, error) {
	if w.left -= int64(len(p)); w.left < 0 {
		return 0, w.full()
	}
	return w.to.Write(p)
}
