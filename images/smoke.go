package images

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"slipway/images/blob"
	"slipway/images/inventory"
	"slipway/images/libdir"
	"slipway/images/records"
	"slipway/internal/errs"
)

// Trial is a command that is to be run in an environment, in a container that has nothing else, with its owner's
// rights.
type Trial struct {
	Owner string
	Image string // path of the SIF
	Argv  []string
	Limit time.Duration // by which it ends
}

// trialStart is what a container is given to start, beyond the command's own limit.
const trialStart = 30 * time.Second

// trialKey names what is to be tried.
type trialKey struct{ owner, hexPart string }

// tryLater has the imports of an environment's owners tried in the background. What finds no room is tried after the
// next start.
func (l *Library) tryLater(digest string) {
	for _, r := range l.Records.Of(libdir.HexOrNone(digest)) {
		if r.Use.Waiting {
			l.again(trialKey{r.Owner, libdir.HexOrNone(digest)})
		}
	}
}

// waiting queues what an earlier service had no time to try, but for what is not settled: that is tried behind it.
func (l *Library) waiting() {
	files, _ := filepath.Glob(l.dir.Path("facts", "*.json"))
	for _, path := range files {
		l.tryLater(blob.Prefix + strings.TrimSuffix(filepath.Base(path), ".json"))
	}
}

// tryAll tries what kernels had imported, one environment after the other, until ctx ends.
func (l *Library) tryAll(ctx context.Context) {
	for {
		select {
		case k := <-l.untried:
			if err := l.try(ctx, k); err != nil && ctx.Err() == nil {
				l.log.Error("an environment's imports cannot be tried", "digest", blob.Prefix+k.hexPart, "owner", k.owner, "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// try imports in an image what an owner's kernels had imported when it was frozen. A trial that ctx ends is begun anew
// after the next start.
func (l *Library) try(ctx context.Context, k trialKey) error {
	r, err := l.Records.Load(k.owner, k.hexPart)
	if errors.Is(err, os.ErrNotExist) || err == nil && !r.Use.Waiting {
		return nil
	}
	if err != nil {
		return err
	}
	use := r.Use
	use.Tried, use.Waiting, use.Why, use.Attempts = l.cfg.Now().UTC(), false, "", nil
	for _, python := range slices.Sorted(maps.Keys(use.Imported)) {
		a, err := l.attempt(ctx, r, python)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errs.Is(err, errs.Missing) {
			// There may be Apptainer after the next start.
			use.Waiting, use.Why, use.Tried = true, err.Error(), time.Time{}
			break
		}
		if err != nil {
			a.Why = l.plainly(err, r.Digest)
		}
		use.Attempts = append(use.Attempts, a)
	}
	return l.tried(k, r.Use.Imported, use)
}

// attempt imports the modules of one interpreter.
func (l *Library) attempt(ctx context.Context, r records.Record, python string) (records.Attempt, error) {
	a := records.Attempt{Python: python}
	if l.cfg.Try == nil {
		return a, errs.New(errs.Missing, "nothing can be run in environments here")
	}
	about, err := l.About(ctx, r.Digest)
	if err != nil {
		return a, err
	}
	plan, err := inventory.SmokePlan(about.Inventory, python, r.Use.Imported[python])
	if err != nil {
		return a, err
	}
	a.Python, a.Skipped = plan.Argv[0], plan.Skipped
	if len(plan.Modules) == 0 {
		return a, nil
	}
	image, err := l.Ready(ctx, r.Digest)
	if err != nil {
		return a, err
	}
	output, err := l.cfg.Try(ctx, Trial{Owner: r.Owner, Image: image, Argv: plan.Argv, Limit: plan.Limit + trialStart})
	if err != nil {
		return a, err
	}
	a.Result, err = inventory.ParseSmoke(output)
	return a, err
}

// plainly says why there is no result. What is no user's business is in the log.
func (l *Library) plainly(err error, digest string) string {
	if errs.KindOf(err) != errs.Internal {
		return err.Error()
	}
	l.log.Error("an environment's imports cannot be tried", "digest", digest, "error", err)
	return "it could not be tried; the service's log says why"
}

// tried keeps the outcome. When another freeze has named further modules meanwhile, all is tried again.
func (l *Library) tried(k trialKey, imported map[string][]string, use records.Use) error {
	l.Records.Lock()
	defer l.Records.Unlock()
	r, err := l.Records.Load(k.owner, k.hexPart)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was removed
	}
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(r.Use.Imported, imported) {
		l.again(k)
		return nil
	}
	use.CVMFS = r.Use.CVMFS
	r.Use = use
	return l.Records.Save(r)
}

// again queues a trial.
func (l *Library) again(k trialKey) {
	select {
	case l.untried <- k:
	default:
	}
}
