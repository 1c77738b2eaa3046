package spawnertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// Pool is a Remote in memory: a Fake whose workloads wait in a queue before they run, on hosts that are called node1,
// node2 and so on. As long as it is not full, who is queued runs at once. It looks whether the engine loses what
// somebody has changed.
type Pool struct {
	*Fake
	crew *Crew
	*hall
}

var _ spawner.Remote = (*Pool)(nil)

// hall is what of a Pool outlives the service.
type hall struct {
	mu     sync.Mutex // guards the fields below
	full   bool
	slow   bool // what comes back takes until Arrive
	most   int  // of one user; 0: not limited
	hosts  int
	refuse error
	left   map[spawner.ID]*left
	torn   map[spawner.ID]bool // what comes back of their changes is not whole
	lost   []spawner.ID
	faults []string
}

// NewPool makes a Pool that holds nothing, whose agents crew plays.
func NewPool(cfg Config, crew *Crew) *Pool {
	cfg.Started, cfg.Ended = crew.ComeUp, crew.GoDown
	p := &Pool{Fake: New(cfg), crew: crew, hall: &hall{left: map[spawner.ID]*left{}, torn: map[spawner.ID]bool{}}}
	crew.onLeave(p.Exit)
	return p
}

// Again makes another Pool over the same workloads, as after a restart of the service.
func (p *Pool) Again() *Pool { return &Pool{Fake: p.Fake.Again(p.cfg), crew: p.crew, hall: p.hall} }

// Fill has who is queued from now on wait until Dispatch, or until it is not full any more.
func (p *Pool) Fill(full bool) {
	p.hall.mu.Lock()
	p.full = full
	p.hall.mu.Unlock()
	for id, seen := range p.Held() {
		if !full && seen == spawner.Queued {
			p.Dispatch(id)
		}
	}
}

// Limit has Start take no more workloads of one user at once from now on, with errs.OverQuota; 0: all.
func (p *Pool) Limit(most int) {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	p.most = most
}

// crowdedLocked refuses a workload of a user who has as many as they may. The caller holds world.mu.
func (p *Pool) crowdedLocked(l spawner.Launch) error {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	has := 0
	for id, w := range p.workloads {
		if id != l.ID && w.launch.Owner == l.Owner {
			has++
		}
	}
	if p.most > 0 && has >= p.most {
		return errs.New(errs.OverQuota, "you have %d of the %d jobs that one user may have", has, p.most).
			With("wait until one has ended")
	}
	return nil
}

// Refuse has Judge answer so from now on.
func (p *Pool) Refuse(err error) {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	p.refuse = err
}

// Faults returns what the engine did that it may not do.
func (p *Pool) Faults() []string {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	return slices.Clone(p.faults)
}

// Lost returns the sessions whose changes came back and were removed before anybody had fetched them.
func (p *Pool) Lost() []spawner.ID {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	return slices.Clone(p.lost)
}

// Title is the name once more.
func (p *Pool) Title() string { return p.Name() }

// Judge refuses what Refuse has said.
func (p *Pool) Judge(context.Context, spawner.Workload) error {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	return p.refuse
}

// Why explains.
func (p *Pool) Why(_ context.Context, w spawner.Workload) (spawner.Explanation, error) {
	if o := p.look(w.ID); o.Existence == spawner.Held {
		return spawner.Explanation{Summary: p.Name() + " holds it: " + o.Reason, Remedy: "release it"}, nil
	}
	return spawner.Explanation{Summary: fmt.Sprintf("%s waits for a slot", w.ID), Slots: 8, Fit: 8}, nil
}

// Start puts a workload into the queue.
func (p *Pool) Start(ctx context.Context, l spawner.Launch) error {
	p.note(Start, l.ID)
	if err := p.trip(ctx, Start, l.ID, Before); err != nil {
		return err
	}
	if err := wait(ctx, p.cfg.StartTime); err != nil {
		return fmt.Errorf("start %s: %w", l.ID, err)
	}
	adopted, err := p.enqueue(l)
	if err != nil {
		return err
	}
	if !adopted {
		if err := p.trip(ctx, Start, l.ID, Halfway); err != nil {
			return err
		}
		p.move(l.ID, spawner.Created, spawner.Observation{Existence: spawner.Queued, Detail: "no slot is free"})
		if !p.isFull() {
			p.Dispatch(l.ID)
		}
	}
	return p.trip(ctx, Start, l.ID, After)
}

// enqueue makes the workload's record, in place of what an earlier run left, and reports whether this run has one
// already.
func (p *Pool) enqueue(l spawner.Launch) (adopted bool, err error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	w := p.workloads[l.ID]
	same := w != nil && w.launch.Run() == l.Run()
	switch {
	case same && w.Existence == spawner.Exited:
		return false, errs.New(errs.Conflict, "start %s: it ran already", l.ID)
	case same && w.Existence != spawner.Created:
		return true, nil
	case w != nil && !same && w.Existence != spawner.Created:
		p.blame("%s is started over a run that is %s", l.ID, w.Existence)
	}
	if err := p.crowdedLocked(l); err != nil {
		return false, fmt.Errorf("start %s: %w", l.ID, err)
	}
	p.drop(l.ID)
	p.workloads[l.ID] = &workload{Observation: spawner.Observation{Existence: spawner.Created}, launch: l}
	return false, nil
}

func (p *Pool) isFull() bool {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	return p.full
}

func (p *Pool) blame(format string, args ...any) {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// move changes what is seen of a workload; false when it is not as from says.
func (p *Pool) move(id spawner.ID, from spawner.Existence, to spawner.Observation) bool {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	w := p.workloads[id]
	if w == nil || w.Existence != from {
		return false
	}
	w.Observation = to
	return true
}

// Dispatch has a queued workload run on the next host.
func (p *Pool) Dispatch(id spawner.ID) {
	p.hall.mu.Lock()
	p.hosts++
	host := fmt.Sprintf("node%d", p.hosts)
	p.hall.mu.Unlock()
	if !p.move(id, spawner.Queued, spawner.Observation{Existence: spawner.Up, Host: host}) {
		return
	}
	p.world.mu.Lock()
	w := p.workloads[id]
	w.runs++
	l := w.launch
	p.world.mu.Unlock()
	p.cfg.Started(l)
	p.obey(l)
}

// Hold has the batch system hold what is queued or runs.
func (p *Pool) Hold(id spawner.ID, reason string) { p.HoldBy(id, "", reason) }

// HoldBy is Hold by somebody who alone lifts it.
func (p *Pool) HoldBy(id spawner.ID, who, reason string) {
	held := spawner.Observation{Existence: spawner.Held, Reason: reason, HeldBy: who}
	if !p.move(id, spawner.Queued, held) && p.move(id, spawner.Up, held) {
		p.cfg.Ended(id)
	}
}

// Unhold puts back into the queue what the batch system holds.
func (p *Pool) Unhold(id spawner.ID) {
	if p.move(id, spawner.Held, spawner.Observation{Existence: spawner.Queued}) && !p.isFull() {
		p.Dispatch(id)
	}
}

// Evict takes the place of what runs away; kindly, its agent had the time to leave what it had.
func (p *Pool) Evict(id spawner.ID, why string, kindly bool) {
	host := p.look(id).Host
	if kindly {
		p.bring(id)
	}
	p.Die(id, spawner.Observation{ExitCode: 143, Evicted: true, Host: host, Reason: why})
}

// Shake loses touch with what runs for a while: from then on nothing that it leaves comes back.
func (p *Pool) Shake(id spawner.ID) {
	p.move(id, spawner.Up, spawner.Observation{Existence: spawner.Up, Host: p.look(id).Host, Shaken: true})
}

// EndAt has the time of what runs end then.
func (p *Pool) EndAt(id spawner.ID, at time.Time) {
	p.move(id, spawner.Up, spawner.Observation{Existence: spawner.Up, Host: p.look(id).Host, Deadline: at})
}

// Exit lets what runs end by itself: all that its agent leaves comes back.
func (p *Pool) Exit(id spawner.ID, code int) {
	host := p.look(id).Host
	if p.look(id).Shaken {
		p.Evict(id, "its output could not be transferred", false)
		return
	}
	p.bring(id)
	p.hall.mu.Lock()
	slow := p.slow
	p.hall.mu.Unlock()
	if !slow {
		p.Die(id, spawner.Observation{ExitCode: code, Host: host})
	} else if p.move(id, spawner.Up, spawner.Observation{Existence: spawner.Up, Host: host, Returning: true}) {
		p.cfg.Ended(id)
	}
}

// Linger has what is left by whoever ends from now on be on its way until Arrive. Whoever is stopped meanwhile loses
// it.
func (p *Pool) Linger() {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	p.slow = true
}

// Arrive has what a workload has left be there, which has ended well.
func (p *Pool) Arrive(id spawner.ID) {
	o := p.look(id)
	p.move(id, spawner.Up, spawner.Observation{Existence: spawner.Exited, Host: o.Host})
}

// bring has what an agent leaves come back.
func (p *Pool) bring(id spawner.ID) {
	l := p.crew.pack(id)
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	if l != nil {
		l.cut = p.torn[id]
		p.left[id] = l
	}
}

// Tear has what comes back of a session's changes not be whole from now on.
func (p *Pool) Tear(id spawner.ID) {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	p.torn[id] = true
}

// Vanish takes a workload away with all that came back of it.
func (p *Pool) Vanish(id spawner.ID) {
	p.hall.mu.Lock()
	delete(p.left, id)
	p.hall.mu.Unlock()
	p.Fake.Vanish(id)
}

// Stop takes a workload out of the queue, or ends it where it runs: nothing comes back then.
func (p *Pool) Stop(ctx context.Context, id spawner.ID, grace time.Duration) error {
	created := spawner.Observation{Existence: spawner.Created}
	o := p.look(id)
	seen := o.Existence
	if o.Returning {
		p.drop(id)
	}
	if seen != spawner.Queued && seen != spawner.Held {
		return p.Fake.Stop(ctx, id, grace)
	}
	p.note(Stop, id)
	if err := p.trip(ctx, Stop, id, Before); err != nil {
		return err
	}
	p.move(id, spawner.Queued, created)
	p.move(id, spawner.Held, created)
	return p.trip(ctx, Stop, id, After)
}

// Withdraw takes a workload out of the queue that never ran.
func (p *Pool) Withdraw(ctx context.Context, id spawner.ID) error {
	p.note(Withdraw, id)
	if err := p.trip(ctx, Withdraw, id, Before); err != nil {
		return err
	}
	created := spawner.Observation{Existence: spawner.Created}
	if p.Runs(id) > 0 {
		return errs.New(errs.Conflict, "withdraw %s: it has begun", id)
	}
	p.move(id, spawner.Queued, created)
	p.move(id, spawner.Held, created)
	return p.trip(ctx, Withdraw, id, After)
}

// Remove removes a stopped workload, with all that came back of it.
func (p *Pool) Remove(ctx context.Context, id spawner.ID) error {
	if seen := p.look(id).Existence; seen == spawner.Queued || seen == spawner.Held {
		p.note(Remove, id)
		return errs.New(errs.Conflict, "remove %s: it is %s", id, seen)
	}
	if err := p.Fake.Remove(ctx, id); err != nil {
		return err
	}
	p.drop(id)
	return nil
}

// drop forgets what came back of a workload.
func (p *Pool) drop(id spawner.ID) {
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	if l := p.left[id]; l != nil && !id.OfJob() && !l.fetched() {
		p.lost = append(p.lost, id)
	}
	delete(p.left, id)
}

// StagedOutput returns what came back.
func (p *Pool) StagedOutput(ctx context.Context, id spawner.ID) (spawner.StagedOutput, error) {
	p.note(StagedOutput, id)
	if err := p.trip(ctx, StagedOutput, id, Before); err != nil {
		return nil, err
	}
	p.hall.mu.Lock()
	defer p.hall.mu.Unlock()
	if l := p.left[id]; l != nil {
		return l, nil
	}
	return nil, errs.New(errs.NotFound, "nothing came back of %s", id)
}
