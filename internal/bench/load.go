package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/clock"
	"slipway/internal/secret"
)

// Run makes users, starts a server for each, visits it, stops it, and removes the users, also when ctx ends before. An
// error says that the load could not be laid on at all; what failed of it is in the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Check(); err != nil {
		return Report{}, err
	}
	if err := cfg.alone(ctx); err != nil {
		return Report{}, err
	}
	if cfg.Limit == 0 {
		cfg.Limit = Longest
	}
	l := &load{Config: cfg, book: newBook(cfg.Users, time.Now())}
	told := l.tell()
	defer told()
	return l.run(ctx)
}

// load is one load under way.
type load struct {
	Config
	*book
}

// visitor is one user of the load.
type visitor struct {
	name  string
	token secret.Text
	up    bool // by her own goroutine, then read when all have ended
}

// tell tells the state now and then until the function that it gives is called.
func (l *load) tell() (stop func()) {
	if l.Tell == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	telling.Go(func() {
		for clock.Sleep(ctx, tellEach) {
			l.Tell(l.now(time.Now()))
		}
	})
	return func() { cancel(); telling.Wait() }
}

func (l *load) run(ctx context.Context) (Report, error) {
	work, cancel := context.WithTimeoutCause(ctx, l.Limit, fmt.Errorf("it took longer than %s", l.Limit))
	defer cancel()
	names := l.users()
	made, err := l.create(work, names)
	visitors := make([]*visitor, made)
	for i := range visitors {
		visitors[i] = &visitor{name: names[i]}
	}
	var up float64
	if err == nil {
		up = l.startAll(work, visitors)
		l.doing("holding")
		clock.Sleep(work, l.Hold)
	}
	down, left := l.clear(ctx, visitors)
	r := l.report()
	r.UpSeconds, r.DownIn, r.Left = up, down, left
	if work.Err() != nil {
		r.Cut = context.Cause(work).Error()
		err = nil // what was cut off is no fault of the Hub
	}
	return r, err
}

// create makes the users and tells how many may be there now, all counted whose making was tried.
func (l *load) create(ctx context.Context, names []string) (tried int, err error) {
	l.doing("creating")
	for tried < len(names) && ctx.Err() == nil {
		next := min(tried+batch, len(names))
		err := l.Hub.Create(ctx, names[tried:next])
		if tried = next; err != nil {
			return tried, fmt.Errorf("make users at the Hub: %w", err)
		}
	}
	return tried, ctx.Err()
}

// startAll starts everybody's server and gives the time until the last was ready.
func (l *load) startAll(ctx context.Context, all []*visitor) float64 {
	l.doing("starting")
	began := time.Now()
	var mu sync.Mutex // guards last
	var last time.Time
	l.each(ctx, all, l.Rate, func(v *visitor) {
		if l.start(ctx, v) {
			mu.Lock()
			last = time.Now()
			mu.Unlock()
			l.visit(ctx, v)
		}
	})
	if last.IsZero() {
		return 0
	}
	return last.Sub(began).Seconds()
}

// each does something for all, some at once, and begins at most rate of them a second. It does not begin any more when
// ctx ends.
func (l *load) each(ctx context.Context, all []*visitor, rate float64, do func(*visitor)) {
	var g errgroup.Group
	g.SetLimit(l.Concurrency)
	began := time.Now()
	for i, v := range all {
		if rate > 0 && !clock.Sleep(ctx, time.Until(began.Add(time.Duration(float64(i)/rate*float64(time.Second))))) {
			break
		}
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { do(v); return nil })
	}
	_ = g.Wait() // the functions above return no error
}

// start brings one server up.
func (l *load) start(ctx context.Context, v *visitor) bool {
	var err error
	l.timed(ctx, Token, v.name, func() error { v.token, err = l.Hub.Token(ctx, v.name); return err })
	if err != nil {
		return false
	}
	l.edit(func(s *State) { s.Asked++ })
	l.timed(ctx, Ready, v.name, func() error { err = l.bringUp(ctx, v); return err })
	l.edit(func(s *State) {
		if err == nil {
			s.Up++
		} else {
			s.Asked--
		}
	})
	v.up = err == nil
	return v.up
}

// bringUp asks for a server and waits until it is ready.
func (l *load) bringUp(ctx context.Context, v *visitor) error {
	began := time.Now()
	ready, err := l.Hub.Start(ctx, v.name)
	if err != nil {
		return err
	}
	l.note(Post, v.name, time.Since(began), nil)
	if ready {
		return nil
	}
	return l.Hub.Await(ctx, v.name)
}

func (l *load) visit(ctx context.Context, v *visitor) {
	l.timed(ctx, Visit, v.name, func() error { return l.Hub.Visit(ctx, v.name, v.token) })
}

// timed books how long something took. What the end of ctx has cut off is not booked.
func (l *load) timed(ctx context.Context, step, user string, do func() error) {
	began := time.Now()
	if err := do(); ctx.Err() == nil {
		l.note(step, user, time.Since(began), err)
	}
}

// clear takes away all that was made, whether the load was interrupted or not: the servers, then the users.
func (l *load) clear(ctx context.Context, all []*visitor) (down float64, left []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTime)
	defer cancel()
	l.doing("stopping")
	began := time.Now()
	l.each(ctx, all, 0, func(v *visitor) { l.stop(ctx, v) })
	down = time.Since(began).Seconds()
	l.doing("removing")
	var mu sync.Mutex // guards left
	gone := map[string]bool{}
	l.each(ctx, all, 0, func(v *visitor) {
		l.timed(ctx, Delete, v.name, func() error {
			err := l.Hub.Delete(ctx, v.name)
			mu.Lock()
			defer mu.Unlock()
			gone[v.name] = err == nil
			return err
		})
	})
	left = []string{}
	for _, v := range all {
		if !gone[v.name] {
			left = append(left, v.name)
		}
	}
	return down, left
}

// stop visits a server once more, then stops it. One that was not seen ready is stopped all the same, for it may be
// starting.
func (l *load) stop(ctx context.Context, v *visitor) {
	if !v.up {
		if err := l.Hub.Stop(ctx, v.name); err != nil {
			l.note(Stop, v.name, 0, err)
		}
		return
	}
	l.timed(ctx, Stop, v.name, func() error { return l.Hub.Stop(ctx, v.name) })
	l.edit(func(s *State) { s.Down++ })
}

func (l *load) doing(what string) { l.edit(func(s *State) { s.Doing = what }) }
