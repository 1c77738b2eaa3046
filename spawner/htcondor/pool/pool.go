// Package pool knows the machines of an HTCondor pool: what GPUs they have, whether they could ever take a workload, and
// what one that waits is waiting for.
//
// Promises: it asks the collector and the access point, and changes nothing there; many who ask at once cause one
// question; what is not known refuses nothing. What a workload asks of a machine is a Demand, and the submit description
// and the explanation are both made from its clauses, so that they never differ. The package must not know how jobs are
// submitted, or what became of them.
package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/classad"
)

// Config is what a Pool is made of.
type Config struct {
	Run  command.Runner // runs HTCondor's commands; required
	Site string         // what machines that do not name their site are of; empty: the pool's own name
	// History is the file that keeps what was found, for Keep. Empty: it is kept in memory alone.
	History string
	// Seen is the file that keeps what kinds of slots there were, as long. Empty: in memory alone.
	Seen string
	// Elastic is for a pool whose workers are made as they are needed: nothing is refused for what there is, the user
	// is told instead.
	Elastic bool
	Every   time.Duration // between two scans; zero: 10 min
	Keep    time.Duration // zero: 30 days
	Fresh   time.Duration // an answer as old as this is given again; zero: 20 s
	Logger  *slog.Logger  // required
}

// Pool knows the machines of an HTCondor pool by their own ads: what GPUs they have, and why a job waits for one. It
// changes nothing. It is safe for concurrent use.
type Pool struct {
	cfg Config
	log *slog.Logger

	slots     *question[[]slot]
	standings *question[standings]
	places    *question[places]

	book      *history
	sightings *sightings

	weighing   sync.Mutex           // guards what follows
	weighed    time.Time            // the answer by which it was judged
	judgements map[string]judgement // of a demand, by its text: the points of a scan ask alike
}

// judgement is how the pool's slots stand to a demand.
type judgement struct {
	spawner.Explanation
	can bool // it can be taken
}

// mostJudgements is how many judgements are kept.
const mostJudgements = 1000

// New makes a Pool and reads its history. It asks nothing of HTCondor.
func New(cfg Config) (*Pool, error) {
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
	past, err := openSightings(cfg.Seen, cfg.Keep)
	if err != nil {
		return nil, fmt.Errorf("read what slots the pool has had: %w", err)
	}
	p := &Pool{cfg: cfg, log: cfg.Logger, book: book, sightings: past}
	p.slots = newQuestion(
		p.askSlots, cfg.Fresh, p.teller("the pool's machines", "all jobs are taken, also what it has nothing for"),
	)
	p.standings = newQuestion(
		p.askStandings, cfg.Fresh, p.teller("the standing of the pool's users", "nobody is told who goes before her"),
	)
	p.places = newQuestion(
		p.askPlaces, cfg.Fresh, p.teller("the jobs that wait", "nobody is told which limit she waits for"),
	)
	return p, nil
}

// teller tells the administrator when something cannot be asked for, and when it can be again: once each.
func (p *Pool) teller(what, effect string) func(error) {
	return func(err error) {
		if err != nil {
			p.log.Warn("HTCondor does not tell "+what+": "+effect, "error", err)
		} else {
			p.log.Info("HTCondor tells " + what + " again")
		}
	}
}

// Run scans the pool again and again until ctx ends.
func (p *Pool) Run(ctx context.Context) error {
	defer p.places.finish()
	defer p.standings.finish()
	defer p.slots.finish()
	tick := time.NewTicker(p.cfg.Every)
	defer tick.Stop()
	for {
		if err := p.scan(ctx); err != nil {
			p.log.Warn("what the pool has had is not saved", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// scan notes what there is now. That it is not known is told where it is asked.
func (p *Pool) scan(ctx context.Context) error {
	now := p.slots.answered(ctx)
	if now.err != nil {
		return nil
	}
	return errors.Join(p.book.add(p.catalogue(now.value, now.begun)), p.sightings.add(now.value, now.begun))
}

// all returns the pool's slots, as they were a short time ago at most. Nor is a collector that does not answer asked
// again at once.
func (p *Pool) all(ctx context.Context) ([]slot, time.Time, error) {
	now := p.slots.answered(ctx)
	if now.err != nil {
		return nil, now.begun, fmt.Errorf("ask the pool for its machines: %w", now.err)
	}
	return now.value, now.begun, nil
}

func (p *Pool) askSlots(ctx context.Context) ([]slot, error) {
	out, err := p.cfg.Run(
		ctx, command.Command{Name: "condor_status", Args: []string{"-json", "-constraint", notDynamic}},
	)
	if err != nil {
		return nil, err
	}
	ads, err := classad.ParseAll(out)
	if err != nil {
		return nil, errs.New(errs.Unavailable, "the pool's answer cannot be read: %w", err)
	}
	return slotsOf(ads), nil
}

// notDynamic leaves out the parts of slots that were cut off for jobs.
const notDynamic = `DynamicSlot =!= true`

// Explain says why what is asked for has not started yet, by the pool's own ads.
func (p *Pool) Explain(ctx context.Context, d Demand) (spawner.Explanation, error) {
	slots, asked, err := p.all(ctx)
	if err != nil {
		return spawner.Explanation{}, err
	}
	return p.weigh(d, slots, asked).Explanation, nil
}

// weigh explains how the pool's slots stand to a demand, as they were found at a time.
func (p *Pool) weigh(d Demand, slots []slot, asked time.Time) judgement {
	key := fmt.Sprint(d)
	p.weighing.Lock()
	defer p.weighing.Unlock()
	v, known := p.judgements[key]
	if known && p.weighed.Equal(asked) {
		return v
	}
	if !p.weighed.Equal(asked) || len(p.judgements) >= mostJudgements {
		p.weighed, p.judgements = asked, map[string]judgement{}
	}
	v = p.judgement(d, slots, asked)
	p.judgements[key] = v
	return v
}

// judgement looks at the slots of now and of before. A demand can be taken also when no slot of now could ever have it,
// but one that was there could.
func (p *Pool) judgement(d Demand, slots []slot, now time.Time) judgement {
	e := explanation(d, slots)
	if e.Slots == 0 || e.Fit > 0 {
		return judgement{e, true}
	}
	if before := earlier(d, p.sightings.gone(slots, now), now); before != "" {
		e.Summary = "no worker of now can take it; " + before
		return judgement{e, true}
	}
	if p.cfg.Elastic {
		e.Summary = "no worker of now can take it, and none of the last that were seen could: it waits for others to come"
	}
	return judgement{e, p.cfg.Elastic}
}

// Forewarning says that a demand which has been taken waits for workers that are not there, as far as is known without
// asking; empty: nothing is known against it.
func (p *Pool) Forewarning(d Demand) string {
	last := p.slots.known()
	if last.err != nil || len(last.value) == 0 {
		return ""
	}
	if v := p.weigh(d, last.value, last.begun); v.Fit == 0 {
		return v.Summary
	}
	return ""
}

// judgePatience is how long a user who submits waits for a collector that does not answer.
const judgePatience = 10 * time.Second

// Judge refuses what no machine that the pool has or had could ever take, and what no pool can be asked for. A pool
// that does not answer, or has no machines at present, refuses nothing: what is not known is not never.
func (p *Pool) Judge(ctx context.Context, d Demand) error {
	if err := CheckGPUs(d.GPU); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, judgePatience)
	defer cancel()
	slots, asked, err := p.all(ctx)
	if err != nil {
		return nil
	}
	v := p.weigh(d, slots, asked)
	if v.can {
		return nil
	}
	return refusal(v.Explanation)
}
