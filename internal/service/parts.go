package service

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// partEvery is how often a part is asked whether it answers, and partTime for how long it may think.
const (
	partEvery = 30 * time.Second
	partTime  = 10 * time.Second
)

// part is something without which the service does less, and how it was when it was last asked.
type part struct {
	name  string
	check func(context.Context) error

	asked bool      // once, at least
	up    bool      // at the last answer
	since time.Time // when the question was asked that has no answer yet; zero: there is none
}

// parts are asked one by one beside everything else, so that nobody who wants to know waits for them.
type parts struct {
	log *slog.Logger

	mu  sync.Mutex // guards how the parts are
	all []*part
}

// makeParts names what the service needs.
func (s *service) makeParts(context.Context) error {
	s.parts = &parts{log: s.log, all: []*part{
		{name: "docker", check: s.docker.Check},
		{name: "disk", check: s.reserve.Check},
		{name: "records", check: func(context.Context) error { return s.engine.Ready() }},
	}}
	for _, h := range s.hubs {
		s.parts.all = append(s.parts.all, &part{name: "hub:" + h.cfg.Name, check: func(ctx context.Context) error {
			_, err := h.client.Version(ctx)
			return err
		}})
	}
	for _, b := range s.batch {
		s.parts.all = append(s.parts.all, &part{name: b.Name(), check: b.Check})
	}
	return nil
}

// run asks all parts until ctx ends.
func (p *parts) run(ctx context.Context, run func(func() error)) {
	for _, part := range p.all {
		run(func() error { return p.watch(ctx, part) })
	}
}

// watch asks a part, again and again, but not at once: a service and a host that have just started are not in trouble.
func (p *parts) watch(ctx context.Context, part *part) error {
	every := time.NewTicker(partEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
			p.ask(ctx, part)
		}
	}
}

// ask asks a part once. The log hears of changes alone.
func (p *parts) ask(ctx context.Context, part *part) {
	p.mu.Lock()
	part.since = time.Now()
	p.mu.Unlock()
	inner, cancel := context.WithTimeout(ctx, partTime)
	defer cancel()
	err := part.check(inner)
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch was := part.up || !part.asked; {
	case err != nil && was:
		p.log.Warn("a part does not answer", "part", part.name, "err", err)
	case err == nil && !was:
		p.log.Info("a part answers again", "part", part.name)
	}
	part.asked, part.up, part.since = true, err == nil, time.Time{}
}

// Up returns whether the parts answered when they were last asked. One that leaves a question open for too long does
// not, and one that was not asked yet is left out.
func (p *parts) Up() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	up := map[string]bool{}
	for _, part := range p.all {
		silent := !part.since.IsZero() && time.Since(part.since) > 2*partTime
		if part.asked || silent {
			up[part.name] = part.up && !silent
		}
	}
	return up
}
