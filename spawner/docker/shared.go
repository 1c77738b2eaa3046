package docker

import (
	"context"
	"fmt"
	"sync"
)

// report tells of a step that takes time, as spawner.Launch.Report.
type report func(message string, percent int)

// pulls are the downloads under way, by reference. Who wants an image that is being pulled joins in: the engine would
// fetch each layer once only, but a registry that counts requests would count all of them.
type pulls struct {
	mu    sync.Mutex // guards all below, and is held while those who wait are told
	under map[string]*shared
}

// shared is one download for all who wait for it.
type shared struct {
	end     context.CancelFunc
	done    chan struct{} // closed at its end
	err     error         // when done: why it failed
	waiting map[*report]bool
	message string // what was told last
	percent int
}

// share does what is to be done once for all who ask for it at the same time, and tells them all how it goes on. It is
// broken off when the last of them has gone, and then has ended when share returns.
func (p *pulls) share(ctx context.Context, ref string, tell report, do func(context.Context, report) error) error {
	one := p.join(ctx, ref, &tell, do)
	select {
	case <-one.done:
		return one.err
	case <-ctx.Done():
		p.leave(ref, one, &tell)
		return fmt.Errorf("pull image %s: %w", ref, ctx.Err())
	}
}

// join adds a caller who waits, and begins the download for the first.
func (p *pulls) join(ctx context.Context, ref string, tell *report, do func(context.Context, report) error) *shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.under[ref]; one != nil {
		one.waiting[tell] = true
		(*tell)(one.message, one.percent)
		return one
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	one := &shared{
		end: end, done: make(chan struct{}), waiting: map[*report]bool{tell: true}, message: "Pulling image " + ref,
		percent: -1,
	}
	if p.under == nil {
		p.under = map[string]*shared{}
	}
	p.under[ref] = one
	(*tell)(one.message, one.percent)
	go func() {
		defer close(one.done)
		one.err = do(ctx, func(message string, percent int) { p.tell(one, message, percent) })
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dropLocked(ref, one)
	}()
	return one
}

// leave takes out one who waits. The last one ends the download, and sees it ended.
func (p *pulls) leave(ref string, one *shared, tell *report) {
	if p.without(ref, one, tell) {
		<-one.done
	}
}

// without takes out one who waits, and reports whether the download was ended with that.
func (p *pulls) without(ref string, one *shared, tell *report) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(one.waiting, tell)
	if len(one.waiting) > 0 {
		return false
	}
	p.dropLocked(ref, one)
	return true
}

// dropLocked forgets a download and ends what of it is under way: who comes from now on begins anew.
func (p *pulls) dropLocked(ref string, one *shared) {
	if p.under[ref] == one {
		delete(p.under, ref)
	}
	one.end()
}

// tell tells all who wait.
func (p *pulls) tell(one *shared, message string, percent int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.message, one.percent = message, percent
	for tell := range one.waiting {
		(*tell)(message, percent)
	}
}
