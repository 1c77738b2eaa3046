// Package notify tells those who hold slices of GPUs what they would not learn in time by themselves: that their GPU is
// lost or has failed under them, and which slice would have been enough for what they do.
//
// It promises to tell each thing once, a loss only when it was seen twice in a row, and a hint only when there was time
// enough to see what is used; what is not known is no reason to tell anything. It must not change anything on a GPU,
// nor end anybody. Nothing is saved: after a restart of the service time is counted anew.
package notify

import (
	"context"
	"time"

	"slipway/internal/gpu"
)

// Config is where the news comes from and where it goes.
type Config struct {
	Inventory func() gpu.Inventory
	Held      func() []gpu.Lease
	Use       func(holder string) gpu.Use
	// Smaller says which slice would have been enough for so much memory; empty: no other, or none worth a word.
	Smaller func(d gpu.Device, s gpu.Slice, peak int64) string
	// Hints reports whether a holder is to get hints at all; Rests, whether it computes nothing now.
	Hints func(holder string) bool
	// Silence says how one gets no more hints. It is told with each.
	Silence string
	Rests   func(ctx context.Context, holder string) bool
	Tell    func(ctx context.Context, holder, text string)
	Every   time.Duration // between two looks; 0: 10 s
}

// Notifier looks and tells. Its memory is bounded by the number of leases.
type Notifier struct {
	cfg   Config
	known map[string]*known // by holder
}

// known is what there is to remember of one lease.
type known struct {
	slice gpu.Slice
	lost  int // looks in a row in which its GPU was lost
	told  bool

	xids int // of its GPU when that was first seen
	ecc  int64

	instance bool // its instance was there
	since    time.Time
	hint     kind // the last that was given
}

// New makes a Teller. Run lets it look.
func New(cfg Config) *Notifier {
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Second
	}
	return &Notifier{cfg: cfg, known: map[string]*known{}}
}

// Run looks until ctx ends.
func (t *Notifier) Run(ctx context.Context) error {
	tick := time.NewTicker(t.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			t.look(ctx, now)
		}
	}
}

// look makes one round.
func (t *Notifier) look(ctx context.Context, now time.Time) {
	inv, held := t.cfg.Inventory(), t.cfg.Held()
	here := map[string]*known{}
	for _, l := range held {
		k := t.known[l.Holder]
		if k == nil || !k.slice.Same(l.Slice) {
			k = &known{slice: l.Slice, xids: -1, since: now}
		}
		here[l.Holder] = k
		if inv.Problem != "" {
			continue // what is known is of an earlier time
		}
		state := stateOf(inv, l.Slice.GPU)
		if text := k.trouble(l, state); text != "" {
			t.cfg.Tell(ctx, l.Holder, text)
		}
		if state != nil && k.lost == 0 {
			t.hint(ctx, l, k, state.Device, now)
		}
	}
	t.known = here
}

func stateOf(inv gpu.Inventory, uuid string) *gpu.State {
	for i := range inv.GPUs {
		if inv.GPUs[i].Device.UUID == uuid {
			return &inv.GPUs[i]
		}
	}
	return nil
}
