package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"slipway/internal/gpu"
)

// survey asks what GPUs there are, and has each looked at; all awaits that. One survey runs at a time: another does
// nothing.
func (f *Fleet) survey(ctx context.Context, all *sync.WaitGroup) error {
	select {
	case f.surveying <- struct{}{}:
		defer func() { <-f.surveying }()
	default:
		return nil
	}
	devices, system, err := f.devices(ctx)
	f.probe(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.unanswered(err)
		return err
	}
	f.answered(devices, system)
	for _, c := range f.cards {
		all.Go(func() { f.inspect(ctx, c) })
	}
	return nil
}

func (f *Fleet) devices(ctx context.Context) ([]gpu.Device, gpu.System, error) {
	ctx, cancel := ask(ctx)
	defer cancel()
	system, err := f.cfg.Driver.System(ctx)
	if err != nil {
		return nil, system, err
	}
	devices, err := f.cfg.Driver.Devices(ctx)
	return devices, system, err
}

// unanswered notes that the driver does not answer. What is known stays, and nothing is leased by it. The lock is held.
func (f *Fleet) unanswered(err error) {
	if f.fault == "" {
		f.log.Warn("the GPUs cannot be asked", "err", err)
	}
	f.fault = err.Error()
	f.publishLocked()
}

// answered takes over what GPUs there are. The lock is held.
func (f *Fleet) answered(devices []gpu.Device, system gpu.System) {
	if f.fault != "" {
		f.log.Info("the GPUs can be asked again")
	}
	f.fault, f.system, f.taken = "", system, time.Now()
	for _, c := range f.cards {
		c.absent = true
	}
	for _, d := range devices {
		c := f.cardLocked(d.UUID)
		if c == nil {
			c = &card{uuid: d.UUID, turn: make(chan struct{}, 1), fault: "it has not been looked at yet", due: true}
			f.cards = append(f.cards, c)
		}
		c.describe(d, ruleFor(f.cfg.Rules, d))
	}
	slices.SortFunc(f.cards, func(a, b *card) int { return a.device.Index - b.device.Index })
	f.publishLocked()
}

// inspect looks at one GPU, and does what is to be done about it: unless it is being changed, for then that is looked
// at.
func (f *Fleet) inspect(ctx context.Context, c *card) {
	if !c.try() {
		return
	}
	defer c.give()
	defer f.publish()
	f.mu.Lock()
	absent, fresh := c.absent, c.due
	c.due = false
	f.mu.Unlock()
	if absent {
		return
	}
	if err := f.look(ctx, c, fresh); err != nil {
		return
	}
	f.reclaim(ctx, c)
	f.publish()
	limited, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	if err := f.tend(limited, c); err != nil && ctx.Err() == nil {
		f.log.Warn("a GPU is not as it should be", "gpu", c.uuid, "err", err)
	}
}

// look asks the driver how a GPU is. The card's turn is taken.
func (f *Fleet) look(ctx context.Context, c *card, fresh bool) error {
	ctx, cancel := ask(ctx)
	defer cancel()
	err := f.askHealth(ctx, c)
	if err == nil {
		_, err = f.list(ctx, c)
	}
	if err == nil {
		f.tryLimits(ctx, c)
		err = f.watch(ctx, c, fresh)
	}
	f.blame(c, err)
	return err
}

// blame notes what became of asking a GPU.
func (f *Fleet) blame(c *card, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.lost, c.fault = "", ""
	switch {
	case err == nil:
	case isGone(err):
		c.lost = err.Error()
	default:
		c.fault = fmt.Sprintf("the driver does not answer: %v", err)
		c.due = true
	}
}

func (f *Fleet) askHealth(ctx context.Context, c *card) error {
	h, err := f.cfg.Driver.Health(ctx, c.uuid)
	if err != nil && !errors.Is(err, gpu.ErrNotSupported) {
		return err
	}
	daemon := f.daemonFault(ctx, c)
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.health, c.daemon = h, daemon; err == nil {
		f.notice(c)
	}
	if h.Lost {
		return gpu.ErrLost
	}
	return nil
}

// list asks what a GPU is cut into, and forgets what is not there any more. The card's turn is taken.
func (f *Fleet) list(ctx context.Context, c *card) ([]gpu.Instance, error) {
	var found []gpu.Instance
	if f.deviceOf(c).MIGEnabled {
		ctx, cancel := ask(ctx)
		defer cancel()
		var err error
		if found, err = f.cfg.Driver.Instances(ctx, c.uuid); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c.instances = found
	f.endQuarantines(c, time.Now())
	return found, f.book.tidy(ctx, c.uuid, found)
}

// describe asks again what one GPU is: its mode may have been changed from outside since the last survey.
func (f *Fleet) describe(ctx context.Context, c *card) error {
	ctx, cancel := ask(ctx)
	defer cancel()
	devices, err := f.cfg.Driver.Devices(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(devices, func(d gpu.Device) bool { return d.UUID == c.uuid })
	if i < 0 {
		return gpu.ErrLost
	}
	c.describe(devices[i], c.rule)
	return nil
}

func (f *Fleet) deviceOf(c *card) gpu.Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	return c.device
}

// tryLimits finds out, once, whether the driver holds control groups to a share of the memory. Only trying tells.
func (f *Fleet) tryLimits(ctx context.Context, c *card) {
	f.mu.Lock()
	known := c.limits != nil || c.rule.Mode.Promise() == gpu.Hardware
	f.mu.Unlock()
	if known {
		return
	}
	err := f.cfg.Driver.LimitMemory(ctx, c.uuid, "slipway-none", 0)
	if err != nil && !errors.Is(err, gpu.ErrNotSupported) && !errors.Is(err, gpu.ErrDenied) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	can := err == nil
	c.limits = &can
}
