package tidings

import (
	"context"
	"time"

	"slipway/internal/gpu"
)

const (
	soonest = 10 * time.Minute // that a slice was watched before anything is said of it
	unused  = 30 * time.Minute // the same, of one that was not used at all

	little = 4  // a peak below this part of the slice
	nearly = 95 // percent
)

// hint gives a word of advice where it is of use, when the holder's cell is done, and not the same twice.
func (t *Teller) hint(ctx context.Context, l gpu.Lease, k *known, d gpu.Device, now time.Time) {
	u := t.cfg.Use(l.Holder)
	if u.Peak == nil {
		k.since = now // what it did before is not known
		return
	}
	text := t.advice(l.Slice, d, *u.Peak, now.Sub(k.since))
	if text == "" || text == k.hint || !t.cfg.Hints(l.Holder) || !t.cfg.Rests(ctx, l.Holder) {
		return
	}
	if k.hint != "" && *u.Peak > 0 && text != enlarge {
		return // a peak that has grown makes other words of the same advice
	}
	k.hint = text
	t.cfg.Tell(ctx, l.Holder, text)
}

const (
	unneeded = "This kernel has held a slice of a GPU for half an hour and has not used it: if you need none, choose a kernel without one, and others can have it"
	enlarge  = "This kernel has used nearly all memory of its slice of the GPU: if it runs out, choose a kernel with a larger one"
)

// advice says what slice would have done, of one that was watched for so long; empty: it is well chosen, or that cannot be said yet.
func (t *Teller) advice(s gpu.Slice, d gpu.Device, peak int64, watched time.Duration) string {
	switch {
	case s.Memory <= 0 || watched < soonest:
		return ""
	case peak == 0 && watched >= unused:
		return unneeded
	case peak == 0:
		return ""
	case peak > s.Memory/100*nearly && s.Mode != gpu.Whole: // many programs take all of a whole one at once
		return enlarge
	case peak < s.Memory/little:
		if words := t.cfg.Smaller(d, s, peak); words != "" {
			return "A smaller slice of the GPU would do for this kernel, and you would wait less for it: it has " + words
		}
	}
	return ""
}
