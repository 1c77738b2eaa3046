package htcondor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// PoolConfig is what a Pool is made of.
type PoolConfig struct {
	Bin  string // the directory of HTCondor's commands; empty: they are on PATH
	Site string // what machines that do not name their site are of; empty: the pool's own name
	// History is the file that keeps what was found, for Keep. Empty: it is kept in memory alone.
	History string
	// Seen is the file that keeps what kinds of slots there were, as long. Empty: in memory alone.
	Seen string
	// Elastic is for a pool whose workers are made as they are needed: nothing is refused for what there is, the user is told instead.
	Elastic bool
	Every   time.Duration // between two scans; zero: 10 min
	Keep    time.Duration // zero: 30 days
	Fresh   time.Duration // an answer as old as this is given again; zero: 20 s
	Logger  *slog.Logger  // required
}

// Pool knows the machines of an HTCondor pool by their own ads: what GPUs they have, and why a job waits for one. It changes nothing.
// It is safe for concurrent use.
type Pool struct {
	cfg PoolConfig
	run runner
	log *slog.Logger

	asking chan struct{} // holds one who guards what follows: one question to the collector at a time, for which nobody waits for ever
	slots  []slot
	asked  time.Time // when they were asked for
	failed error     // why they are not known since then; nil: they are

	book   *history
	memory *memory

	warning  sync.Mutex        // guards what follows
	warned   time.Time         // the answer that it is made from
	warnings map[string]string // of a demand, by its text: the points of a scan ask alike
}

// NewPool makes a Pool and reads its history. It asks nothing of HTCondor.
func NewPool(cfg PoolConfig) (*Pool, error) {
	return newPool(cfg, program{dir: cfg.Bin}.run)
}

func newPool(cfg PoolConfig, run runner) (*Pool, error) {
	set := func(d *time.Duration, usual time.Duration) {
		if *d <= 0 {
			*d = usual
		}
	}
	set(&cfg.Every, 10*time.Minute)
	set(&cfg.Keep, 30*24*time.Hour)
	set(&cfg.Fresh, 20*time.Second)
	book, err := openHistory(cfg.History, cfg.Keep, time.Now())
	if err != nil {
		return nil, fmt.Errorf("read the history of the pool's GPUs: %w", err)
	}
	past, err := openMemory(cfg.Seen, cfg.Keep)
	if err != nil {
		return nil, fmt.Errorf("read what slots the pool has had: %w", err)
	}
	return &Pool{cfg: cfg, run: run, log: cfg.Logger, book: book, memory: past, asking: make(chan struct{}, 1)}, nil
}

// Run scans the pool again and again until ctx ends.
func (p *Pool) Run(ctx context.Context) error {
	tick := time.NewTicker(p.cfg.Every)
	defer tick.Stop()
	for {
		if err := p.scan(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("the pool's GPUs could not be listed", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// scan notes what there is now.
func (p *Pool) scan(ctx context.Context) error {
	slots, taken, err := p.all(ctx)
	if err != nil {
		return err
	}
	return errors.Join(p.book.add(p.catalogue(slots, taken)), p.memory.add(slots, taken))
}

// known gives the slots as they were found last, without waiting; none when the last question was in vain, or one is being asked.
func (p *Pool) known() ([]slot, time.Time) {
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	default:
		return nil, time.Time{}
	}
	if p.failed != nil {
		return nil, p.asked
	}
	return p.slots, p.asked
}

// all gives the pool's slots, as they were a short time ago at most. Nor is a collector that does not answer asked again at once.
func (p *Pool) all(ctx context.Context) ([]slot, time.Time, error) {
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return nil, time.Now(), fmt.Errorf("ask the pool for its machines: %w", ctx.Err())
	}
	if !p.asked.IsZero() && time.Since(p.asked) < p.cfg.Fresh {
		return p.slots, p.asked, p.failed
	}
	asked := time.Now()
	slots, err := p.ask(ctx)
	if errors.Is(err, context.Canceled) {
		return nil, asked, err // that says nothing of the pool
	}
	p.slots, p.asked, p.failed = slots, asked, err
	return slots, asked, err
}

func (p *Pool) ask(ctx context.Context) ([]slot, error) {
	out, err := p.run(ctx, command{name: "condor_status", args: []string{"-json", "-constraint", notDynamic}})
	if err != nil {
		return nil, fmt.Errorf("ask the pool for its machines: %w", err)
	}
	ads, err := parseAds(out)
	if err != nil {
		return nil, errs.New(errs.Unavailable, "the pool's answer cannot be read: %w", err)
	}
	return slotsOf(ads), nil
}

// notDynamic leaves out the parts of slots that were cut off for jobs.
const notDynamic = `DynamicSlot =!= true`

// explain says why what is asked for has not started yet, by the pool's own ads.
func (p *Pool) explain(ctx context.Context, d demand) (spawner.Explanation, error) {
	slots, asked, err := p.all(ctx)
	if err != nil {
		return spawner.Explanation{}, err
	}
	e, _ := p.weigh(d, slots, asked)
	return e, nil
}

// weigh explains how the pool's slots stand to a demand, of now and of before. It reports whether the demand can be taken: also when no
// slot of now could ever have it, but one that was there could.
func (p *Pool) weigh(d demand, slots []slot, now time.Time) (e spawner.Explanation, can bool) {
	e = explanation(d, slots)
	if e.Slots == 0 || e.Fit > 0 {
		return e, true
	}
	if before := earlier(d, p.memory.gone(slots, now), now); before != "" {
		e.Summary = "no worker of now can take it; " + before
		return e, true
	}
	if p.cfg.Elastic {
		e.Summary = "no worker of now can take it, and none of the last that were seen could: it waits for others to come"
	}
	return e, p.cfg.Elastic
}

// forewarning says that a demand which has been taken waits for workers that are not there, as far as is known without asking; empty:
// nothing is known against it.
func (p *Pool) forewarning(d demand) string {
	slots, asked := p.known()
	if len(slots) == 0 {
		return ""
	}
	key := fmt.Sprint(d)
	p.warning.Lock()
	defer p.warning.Unlock()
	if !p.warned.Equal(asked) {
		p.warned, p.warnings = asked, map[string]string{}
	}
	text, known := p.warnings[key]
	if !known {
		if e, _ := p.weigh(d, slots, asked); e.Fit == 0 {
			text = e.Summary
		}
		p.warnings[key] = text
	}
	return text
}

// judgePatience is how long a user who submits waits for a collector that does not answer.
const judgePatience = 10 * time.Second

// judge refuses what no machine that the pool has or had could ever take, and what no pool can be asked for. A pool that does not
// answer, or has no machines at present, refuses nothing: what is not known is not never.
func (p *Pool) judge(ctx context.Context, d demand) error {
	if err := checkGPUs(d.gpu); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, judgePatience)
	defer cancel()
	slots, asked, err := p.all(ctx)
	if err != nil {
		p.log.Warn("a job is taken though it is not known whether the pool has what it asks for", "err", err)
		return nil
	}
	e, can := p.weigh(d, slots, asked)
	if can {
		return nil
	}
	return refusal(e)
}
