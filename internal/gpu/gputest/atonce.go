package gputest

import (
	"errors"
	"sync"
	"testing"

	"slipway/internal/gpu"
)

// onePlace has many ask for one place at the same time.
func onePlace(t *testing.T, b bench) {
	p := b.smallest()
	var wg sync.WaitGroup
	won := make(chan gpu.Instance, 8)
	for range cap(won) {
		wg.Go(func() {
			in, err := b.CreateInstance(t.Context(), b.dev.UUID, p.Name, p.Placements[0])
			switch {
			case err == nil:
				won <- in
			case !errors.Is(err, gpu.ErrNoRoom):
				t.Errorf("CreateInstance() of one of many = %v", err)
			}
		})
	}
	wg.Wait()
	close(won)
	var all []gpu.Instance
	for in := range won {
		all = append(all, in)
	}
	if len(all) != 1 {
		t.Errorf("%d of many won: %+v", len(all), all)
	}
	b.holds(t, all...)
}

// manyPlaces has each place made and destroyed some times, while others look on.
func manyPlaces(t *testing.T, b bench) {
	p := b.smallest()
	var makers, lookers sync.WaitGroup
	for _, at := range p.Placements[:p.Max] {
		makers.Go(func() {
			for range 2 {
				in, err := b.CreateInstance(t.Context(), b.dev.UUID, p.Name, at)
				if err == nil {
					err = b.DestroyInstance(t.Context(), b.dev.UUID, in.GI)
				}
				if err != nil {
					t.Errorf("make and destroy %s at %v: %v", p.Name, at, err)
				}
			}
		})
	}
	done := make(chan struct{})
	lookers.Go(func() { b.lookOn(t, done) })
	makers.Wait()
	close(done)
	lookers.Wait()
	b.holds(t)
}

func (b bench) lookOn(t *testing.T, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		_, err := b.Devices(t.Context())
		_, instances := b.Instances(t.Context(), b.dev.UUID)
		_, read := b.Read(t.Context(), b.dev.UUID)
		_, health := b.Health(t.Context(), b.dev.UUID)
		if err := errors.Join(err, instances, read, health); err != nil {
			t.Errorf("looking on: %v", err)
		}
	}
}
