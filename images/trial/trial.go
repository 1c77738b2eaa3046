// Package trial tries what an environment is for: it imports, in the image alone, the modules that kernels had imported
// when the environment was frozen, and keeps the outcome in the owner's record.
//
// It promises that what it finds no time for is tried after the next start, and that no trial holds up a freeze. It must
// not know how a command is run in an image.
package trial

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	"slipway/images/blob"
	"slipway/images/inventory"
	"slipway/images/libdir"
	"slipway/images/records"
	"slipway/internal/errs"
)

// Command is what a trial runs: a command in an environment, in a container that has nothing else, with its owner's
// rights.
type Command struct {
	Owner string
	Image string // path of the SIF
	Argv  []string
	Limit time.Duration // by which it ends
}

// startTime is what a container is given to start, beyond the command's own limit.
const startTime = 30 * time.Second

// Config says what is tried, and how.
type Config struct {
	Records *records.Store
	Logger  *slog.Logger
	Now     func() time.Time
	// Run runs a command in an environment and returns what it printed; nil, or an error of kind Missing: that cannot be
	// done here.
	Run func(context.Context, Command) ([]byte, error)
	// Image returns the file of an environment, ready for a run.
	Image func(ctx context.Context, digest string) (path string, err error)
	// Inventory says what is in an environment.
	Inventory func(ctx context.Context, digest string) (inventory.Inventory, error)
}

// Queue is what is to be tried.
type Queue struct {
	cfg     Config
	untried chan key
}

// maxPending bounds the queue. What finds no room is tried after the next start.
const maxPending = 1024

// NewQueue returns an empty queue.
func NewQueue(cfg Config) *Queue { return &Queue{cfg: cfg, untried: make(chan key, maxPending)} }

// key names what is to be tried.
type key struct{ owner, hexPart string }

// Add has the imports of an environment's owners tried in the background. What finds no room is tried after the
// next start.
func (q *Queue) Add(digest string) {
	for _, r := range q.cfg.Records.Of(libdir.HexOrNone(digest)) {
		if r.Use.Waiting {
			q.again(key{r.Owner, libdir.HexOrNone(digest)})
		}
	}
}

// Run tries what kernels had imported, one environment after the other, until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	for {
		select {
		case k := <-q.untried:
			if err := q.try(ctx, k); err != nil && ctx.Err() == nil {
				q.cfg.Logger.Error(
					"an environment's imports cannot be tried", "digest", blob.Prefix+k.hexPart, "owner", k.owner,
					"error", err,
				)
			}
		case <-ctx.Done():
			return
		}
	}
}

// try imports in an image what an owner's kernels had imported when it was frozen. A trial that ctx ends is begun anew
// after the next start.
func (q *Queue) try(ctx context.Context, k key) error {
	r, err := q.cfg.Records.Load(k.owner, k.hexPart)
	if errors.Is(err, os.ErrNotExist) || err == nil && !r.Use.Waiting {
		return nil
	}
	if err != nil {
		return err
	}
	use := r.Use
	use.Tried, use.Waiting, use.Why, use.Attempts = q.cfg.Now().UTC(), false, "", nil
	for _, python := range slices.Sorted(maps.Keys(use.Imported)) {
		a, err := q.attempt(ctx, r, python)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errs.Is(err, errs.Missing) {
			// There may be Apptainer after the next start.
			use.Waiting, use.Why, use.Tried = true, err.Error(), time.Time{}
			break
		}
		if err != nil {
			a.Why = q.plainly(err, r.Digest)
		}
		use.Attempts = append(use.Attempts, a)
	}
	return q.tried(k, r.Use.Imported, use)
}

// attempt imports the modules of one interpreter.
func (q *Queue) attempt(ctx context.Context, r records.Record, python string) (records.Attempt, error) {
	a := records.Attempt{Python: python}
	if q.cfg.Run == nil {
		return a, errs.New(errs.Missing, "nothing can be run in environments here")
	}
	known, err := q.cfg.Inventory(ctx, r.Digest)
	if err != nil {
		return a, err
	}
	plan, err := inventory.SmokePlan(known, python, r.Use.Imported[python])
	if err != nil {
		return a, err
	}
	a.Python, a.Skipped = plan.Argv[0], plan.Skipped
	if len(plan.Modules) == 0 {
		return a, nil
	}
	image, err := q.cfg.Image(ctx, r.Digest)
	if err != nil {
		return a, err
	}
	output, err := q.cfg.Run(ctx, Command{Owner: r.Owner, Image: image, Argv: plan.Argv, Limit: plan.Limit + startTime})
	if err != nil {
		return a, err
	}
	a.Result, err = inventory.ParseSmoke(output)
	return a, err
}

// plainly says why there is no result. What is no user's business is in the log.
func (q *Queue) plainly(err error, digest string) string {
	if errs.KindOf(err) != errs.Internal {
		return err.Error()
	}
	q.cfg.Logger.Error("an environment's imports cannot be tried", "digest", digest, "error", err)
	return "it could not be tried; the service's log says why"
}

// tried keeps the outcome. When another freeze has named further modules meanwhile, all is tried again.
func (q *Queue) tried(k key, imported map[string][]string, use records.Use) error {
	q.cfg.Records.Lock()
	defer q.cfg.Records.Unlock()
	r, err := q.cfg.Records.Load(k.owner, k.hexPart)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was removed
	}
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(r.Use.Imported, imported) {
		q.again(k)
		return nil
	}
	use.CVMFS = r.Use.CVMFS
	r.Use = use
	return q.cfg.Records.Save(r)
}

// again queues a trial.
func (q *Queue) again(k key) {
	select {
	case q.untried <- k:
	default:
	}
}
