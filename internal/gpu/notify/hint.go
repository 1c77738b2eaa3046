package notify

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

// kind tells one advice from another, whatever its words: a peak that has grown makes other words of the same.
type kind string

const (
	unneeded kind = "no slice"
	smaller  kind = "a smaller one"
	enlarge  kind = "a larger one"
)

// hint gives a word of advice where it is of use, when the holder's cell is done, and not the same twice.
func (t *Notifier) hint(ctx context.Context, l gpu.Lease, k *known, d gpu.Device, now time.Time) {
	u := t.cfg.Use(l.Holder)
	if u.Peak == nil {
		k.since = now // what it did before is not known
		return
	}
	is, text := t.advice(l.Slice, d, *u.Peak, now.Sub(k.since))
	if text == "" || is == k.hint || !t.cfg.Hints(l.Holder) || !t.cfg.Rests(ctx, l.Holder) {
		return
	}
	k.hint = is
	t.cfg.Tell(ctx, l.Holder, text+". "+t.cfg.Silence)
}

// advice says what slice would have done, of one that was watched for so long; empty: it is well chosen, or that cannot
// be said yet.
func (t *Notifier) advice(s gpu.Slice, d gpu.Device, peak int64, watched time.Duration) (is kind, text string) {
	switch {
	case s.Memory <= 0 || watched < soonest:
		return "", ""
	case peak == 0 && watched >= unused:
		return unneeded, "This kernel has held a slice of a GPU for half an hour and has not used it: if you need none, choose a kernel without one, and others can have it"
	case peak == 0:
		return "", ""
	case peak > s.Memory/100*nearly && s.Mode != gpu.Whole: // many programs take all of a whole one at once
		return enlarge, "This kernel has used nearly all memory of its slice of the GPU: if it runs out, choose a kernel with a larger one"
	case peak < s.Memory/little:
		if words := t.cfg.Smaller(d, s, peak); words != "" {
			return smaller, "A smaller slice of the GPU would do for this kernel, and you would wait less for it: it has " + words
		}
	}
	return "", ""
}
