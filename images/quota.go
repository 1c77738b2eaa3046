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
	"slipway/images/libdir"
	"slipway/internal/errs"
	"slipway/internal/units"
)

// Quota bounds what environments take beside their bases.
type Quota struct {
	Group  string   // whose members together; empty: one owner's alone
	Owners []string // whose environments count, each digest once
	Bytes  int64
}

// Bound is a quota and what is used of it.
type Bound struct {
	Group string
	Own   int64
	Quota int64
}

// percent returns how much of it is used.
func (b Bound) percent() int64 { return int64(100 * float64(b.Own) / float64(b.Quota)) }

// String tells it to whom it bounds.
func (b Bound) String() string {
	if b.Group != "" {
		return fmt.Sprintf("the environments of the group %s take %s of the %s that it may use", b.Group, size(b.Own), size(b.Quota))
	}
	return fmt.Sprintf("your environments take %s of the %s that you may use", size(b.Own), size(b.Quota))
}

// size writes a number of bytes for people.
func size(n int64) string { return units.DiskWords(n) }

// Usage says what an owner's environments take.
type Usage struct {
	Environments int
	Own          int64   // bytes that no base has; each environment counted once
	Shared       int64   // bytes of the bases under them, each counted once; others may stand on them too
	Bounds       []Bound // his own first
	Warnings     []string
}

// The parts of a quota, in percent, from which on its owner is warned.
const (
	nearlyFull = 80
	almostFull = 95
)

// Usage adds up what an owner has.
func (l *Library) Usage(ctx context.Context, owner string) (Usage, error) {
	all, err := l.List(owner)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{}
	bases := map[string]bool{}
	for _, e := range once(all) {
		u.Environments++
		u.Own += e.Own
		if d, err := l.document(e.Digest); err == nil && d.Base != nil && !bases[d.Base.Digest] {
			bases[d.Base.Digest] = true
			u.Shared += d.Base.Size
		}
	}
	if u.Bounds, err = l.bounds(owner, ""); err != nil {
		return Usage{}, err
	}
	for _, b := range u.Bounds {
		if b.percent() >= nearlyFull {
			u.Warnings = append(u.Warnings, l.warning(ctx, owner, b))
		}
	}
	return u, nil
}

// warning tells an owner of a bound that is close.
func (l *Library) warning(ctx context.Context, owner string, b Bound) string {
	words := fmt.Sprintf("%s (%d %%)", b, b.percent())
	if b.percent() < almostFull {
		return words
	}
	return words + "; a freeze that needs more is refused: " + l.advice(ctx, owner)
}

// once leaves out further names of a digest.
func once(list []Environment) []Environment {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(e Environment) bool {
		had := seen[e.Digest]
		seen[e.Digest] = true
		return had
	})
}

// bounds returns the quotas of an owner, and what is used of each beside one digest.
func (l *Library) bounds(owner, beside string) ([]Bound, error) {
	if l.cfg.Quotas == nil {
		return nil, nil
	}
	var out []Bound
	for _, q := range l.cfg.Quotas(owner) {
		var all []Environment
		for _, o := range q.Owners {
			list, err := l.List(o)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
		b := Bound{Group: q.Group, Quota: q.Bytes}
		for _, e := range once(all) {
			if e.Digest != beside {
				b.Own += e.Own
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// unbounded is the room of an owner whom no quota bounds.
const unbounded = 1 << 62

// room returns how many bytes more an owner's environments may take when one, instead, has gone, and refuses him who
// needs more. What he has already he may have again.
func (l *Library) room(owner, instead, digest string, need int64) (int64, error) {
	if _, err := l.loadRecord(owner, libdir.HexOrNone(digest)); err == nil {
		return unbounded, nil
	}
	all, err := l.bounds(owner, instead)
	if err != nil {
		return 0, err
	}
	left := int64(unbounded)
	for _, b := range all {
		if b.Own+need > b.Quota {
			return 0, b.exceeded(need)
		}
		left = min(left, b.Quota-b.Own)
	}
	return left, nil
}

// exceeded is the error of what needs more than is left.
func (b Bound) exceeded(need int64) *errs.Error {
	words := b.String()
	if left := b.Quota - b.Own; need > 1 && left > 0 {
		words += fmt.Sprintf(", and this one needs more than the %s that are left", size(left))
	}
	return errs.New(errs.OverQuota, "%s", words).With(lookAtUsage)
}

// Room returns how many bytes more an owner's environments may take, when one of them, instead, has gone.
func (l *Library) Room(ctx context.Context, owner, instead string) (int64, error) {
	return l.roomFor(ctx, owner, instead, "", 1)
}

// roomFor is room, with an advice. It asks for what is in use, so it is not for who holds a lock.
func (l *Library) roomFor(ctx context.Context, owner, instead, digest string, need int64) (int64, error) {
	left, err := l.room(owner, instead, digest, need)
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
		return cmp.Or(err, error(errs.New(errs.OverQuota, "the changes take more than the %s that were left of your quota", size(req.room)).With("freeze again")))
	}
	files, err := graft.Largest(ctx, req.Source.Upper, l.stripOf(req))
	if err != nil || len(files) == 0 {
		return full
	}
	var largest []string
	for _, f := range files {
		largest = append(largest, fmt.Sprintf("%s (%s)", text(f.Path), size(f.Bytes)))
	}
	return full.With("the largest files that have changed are " + strings.Join(largest, ", ") +
		": remove what is not needed, or move it to a volume or below /tmp; or " + full.Remedy)
}

const lookAtUsage = "`slipway envs du` shows what takes how much"

// most is how many environments an advice names.
const most = 3

// advice names what an owner could do without: his largest environments that no job and no session uses, where they
// make a difference.
func (l *Library) advice(ctx context.Context, owner string) string {
	all, err := l.List(owner)
	used, unknown := l.inUse(ctx)
	if err != nil || unknown != nil {
		return lookAtUsage
	}
	all = slices.DeleteFunc(once(leadingFirst(all)), func(e Environment) bool { return used[e.Digest] || e.Own == 0 })
	if len(all) == 0 {
		return lookAtUsage + "; all of yours are in use by sessions and jobs"
	}
	least := l.worthwhile(owner)
	all = slices.DeleteFunc(all, func(e Environment) bool { return e.Own < least })
	slices.SortStableFunc(all, func(a, b Environment) int { return cmp.Compare(b.Own, a.Own) })
	var names []string
	for _, e := range all[:min(most, len(all))] {
		names = append(names, shortName(e))
	}
	if len(names) == 0 {
		return lookAtUsage
	}
	return "remove with `slipway envs rm` what nothing uses, such as " + strings.Join(names, ", ") + "; " + lookAtUsage
}

// worthwhile is how much an environment takes at least that is worth removing: a hundredth of the smallest quota.
func (l *Library) worthwhile(owner string) int64 {
	all, err := l.bounds(owner, "")
	if err != nil || len(all) == 0 {
		return 0
	}
	return slices.MinFunc(all, func(a, b Bound) int { return cmp.Compare(a.Quota, b.Quota) }).Quota / 100
}

// shortName names an environment, with all its names, by the beginning of its digest, and says what it takes.
func shortName(e Environment) string {
	words := strings.TrimPrefix(e.Digest, blob.Prefix)[:12] + " ("
	if e.Name != "" && !e.Moved {
		words += strings.TrimSuffix(e.Name+":"+e.Tag, ":") + ", "
	}
	return words + size(e.Own) + ")"
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
