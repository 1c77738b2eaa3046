package credentials

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/internal/taskgroup"
)

// DistributorConfig is what a Distributor needs.
type DistributorConfig struct {
	Manager *Manager
	Owner   func(ctx context.Context, workload string) (principal string, err error)
	Send    func(ctx context.Context, workload string, files []File) error // to the workload's own agent
	Tell    func(ctx context.Context, workload, text string)               // to who reads its events
	Logger  *slog.Logger
}

// Distributor brings to every workload, for as long as its agent is linked, the files of its owner: what is new at
// once, all of it after a restart on either side, and nothing when a credential is gone. It must know the agent as the
// workload's own: Send may go there alone.
type Distributor struct {
	cfg  DistributorConfig
	born time.Time

	mu    sync.Mutex       // guards all below
	tasks *taskgroup.Group // what Bring and Run began; nil before Run
	runs  map[string]*errand
	early []string // links that came up before Run
}

// errand is what is done for one workload.
type errand struct {
	stop context.CancelFunc // nil: its agent is not linked

	turn chan struct{}     // holds one while somebody sends: what is older never comes last
	sent [sha256.Size]byte // what its agent has; guarded by turn
}

const (
	sendTime  = 15 * time.Second
	sendAgain = 10 * time.Second
	freshTime = 3 * time.Second // that a start waits for what its owner is to have
	bringTime = 8 * time.Second // that it waits in all
	lookTime  = 5 * time.Minute // between two looks at what ends
	// after its start the service's agents come back: what they lack is refreshed by and by
	settleTime = time.Minute
)

// NewDistributor makes a Distributor.
func NewDistributor(cfg DistributorConfig) *Distributor {
	return &Distributor{cfg: cfg, born: time.Now(), runs: map[string]*errand{}}
}

// Run brings until ctx ends. It returns when all that was begun has ended.
func (c *Distributor) Run(ctx context.Context) error {
	tasks := taskgroup.New(ctx)
	c.mu.Lock()
	c.tasks = tasks
	early := c.early
	c.early = nil
	c.mu.Unlock()
	for _, id := range early {
		c.LinkChanged(id, true)
	}
	<-ctx.Done()
	tasks.End()
	tasks.Wait()
	return ctx.Err()
}

// LinkChanged tells the Distributor that the link to a workload's agent has come up or gone down. It does not wait.
func (c *Distributor) LinkChanged(id string, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.runs[id]
	if e != nil && e.stop != nil {
		e.stop()
	}
	delete(c.runs, id)
	switch {
	case !up:
	case c.tasks == nil:
		c.early = append(c.early, id)
	default:
		ctx, stop := context.WithCancel(c.tasks.Context())
		e = &errand{stop: stop, turn: make(chan struct{}, 1)}
		c.runs[id] = e
		c.tasks.Go(func(context.Context) { c.serve(ctx, id, e) })
	}
}

// serve looks after one workload until its link goes down.
func (c *Distributor) serve(ctx context.Context, id string, e *errand) {
	principal, err := c.cfg.Owner(ctx, id)
	if err != nil {
		c.cfg.Logger.Warn("whose credentials a workload is to have is not known", "id", id, "err", err)
		return
	}
	changed, unwatch := c.cfg.Manager.Watch(principal)
	defer unwatch()
	if time.Since(c.born) > settleTime {
		c.tasks.Go(func(context.Context) { c.cfg.Manager.Fresh(ctx, principal) })
	}
	told := map[string]bool{}
	for {
		wait := lookTime
		err := c.deliver(ctx, id, principal, e)
		switch {
		case ctx.Err() != nil:
			return
		case errs.Is(err, errs.NotFound):
			c.cfg.Logger.Info("a workload's agent is older than this service and takes no credentials", "id", id)
			return
		case err != nil:
			c.cfg.Logger.Debug("credentials could not be brought", "id", id, "err", err)
			wait = sendAgain
		}
		c.tell(ctx, id, principal, told)
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// deliver sends what a workload is to have, unless that is what it has.
func (c *Distributor) deliver(ctx context.Context, id, principal string, e *errand) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	files, err := c.cfg.Manager.Files(ctx, principal)
	if err != nil {
		return err
	}
	sum := sumOf(files)
	if e.sent == sum {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := c.cfg.Send(ctx, id, files); err != nil {
		return err
	}
	e.sent = sum
	return nil
}

// sumOf knows files again. What is put again unchanged is another. It is never that of nothing sent.
func sumOf(files []File) (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%d files", len(files))
	for _, f := range files {
		fmt.Fprintf(h, "%q %q %d", f.Name, f.Data.Reveal(), f.Issued.UnixNano())
	}
	h.Sum(sum[:0])
	return sum
}

// tell tells what is wrong now and was not before.
func (c *Distributor) tell(ctx context.Context, id, principal string, told map[string]bool) {
	list, err := c.cfg.Manager.List(ctx, principal)
	if err != nil {
		return
	}
	for _, e := range list {
		bad := e.Trouble != ""
		if bad && !told[e.Name] {
			c.cfg.Tell(ctx, id, fmt.Sprintf("Your credential %s: %s", e.Name, e.Trouble))
		}
		told[e.Name] = bad
	}
}

// Bring sees to it that a workload that is about to start its program finds what its owner has. It waits a moment for
// what is refreshed first; what comes later is brought then. Nothing that fails here keeps the program from starting.
func (c *Distributor) Bring(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, bringTime)
	defer cancel()
	principal, err := c.cfg.Owner(ctx, id)
	if err != nil {
		return // the start itself will say so
	}
	fresh := make(chan struct{})
	e := c.begin(id, func(ctx context.Context) {
		defer close(fresh)
		c.cfg.Manager.Fresh(ctx, principal)
	})
	if e == nil {
		return
	}
	timer := time.NewTimer(freshTime)
	defer timer.Stop()
	select {
	case <-fresh:
	case <-timer.C:
	case <-ctx.Done():
		return
	}
	if err := c.deliver(ctx, id, principal, e); err != nil {
		c.cfg.Logger.Debug("credentials could not be brought before the start", "id", id, "err", err)
	}
}

// begin has Run wait for what is done for a workload; nil when it does not run, or the workload is not linked.
func (c *Distributor) begin(id string, do func(context.Context)) *errand {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.runs[id]; e != nil && c.tasks.Go(do) {
		return e
	}
	return nil
}
