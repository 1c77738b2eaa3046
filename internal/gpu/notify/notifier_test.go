package notify

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway/internal/gpu"
)

const gib = 1 << 30

// desk is a Teller over one lease, with what there is to tell of it.
type desk struct {
	*Notifier
	inv   gpu.Inventory
	lease gpu.Lease
	use   gpu.Use
	busy  bool
	deaf  bool
	now   time.Time
	told  []string
}

func newDesk(mode gpu.Mode, memory int64) *desk {
	s := gpu.Slice{GPU: "GPU-1", Mode: mode, Name: "x", Memory: memory}
	gi := 1
	d := &desk{lease: gpu.Lease{Holder: "s-1", Slice: s}, now: time.Now(), inv: gpu.Inventory{GPUs: []gpu.State{{
		Device: gpu.Device{UUID: "GPU-1"}, Condition: gpu.Ready, Health: &gpu.Health{}, Slices: []gpu.SliceState{{Slice: s, GI: &gi, Holder: "s-1"}},
	}}}}
	d.Notifier = New(Config{
		Inventory: func() gpu.Inventory { return d.inv },
		Held:      func() []gpu.Lease { return []gpu.Lease{d.lease} },
		Use:       func(string) gpu.Use { return d.use },
		Smaller:   func(_ gpu.Device, _ gpu.Slice, peak int64) string { return fmt.Sprintf("used at most %d", peak/gib) },
		Hints:     func(string) bool { return !d.deaf },
		Silence:   "Say so",
		Rests:     func(context.Context, string) bool { return !d.busy },
		Tell:      func(_ context.Context, holder, text string) { d.told = append(d.told, text) },
	})
	return d
}

// after looks for so long, and gives what was told meanwhile.
func (d *desk) after(long time.Duration) string {
	d.told = nil
	for end := d.now.Add(long); d.now.Before(end); d.now = d.now.Add(10 * time.Second) {
		d.look(context.Background(), d.now)
	}
	return strings.Join(d.told, "|")
}

func (d *desk) peak(n int64) { d.use.Peak = &n }

func TestLostGPUIsToldOnce(t *testing.T) {
	for name, lose := range map[string]func(*desk){
		"does not answer": func(d *desk) {
			d.inv.GPUs[0].Condition, d.inv.GPUs[0].Why = gpu.Gone, "does not answer: for the administrator"
		},
		"its host does not have it":                 func(d *desk) { d.inv.GPUs = nil },
		"its instance was removed from outside Sli": func(d *desk) { d.inv.GPUs[0].Slices = nil },
	} {
		d := newDesk(gpu.MIG, 20*gib)
		d.peak(19 * gib)
		if got := d.after(time.Minute); got != "" {
			t.Errorf("before: %s", got)
		}
		before := d.inv
		before.GPUs = append([]gpu.State(nil), d.inv.GPUs...)
		lose(d)
		if got := d.after(10 * time.Second); got != "" {
			t.Errorf("%s: told at first sight: %s", name, got)
		}
		got := d.after(time.Hour)
		if strings.Count(got, "is lost") != 1 || !strings.Contains(got, "("+name) || strings.Contains(got, "|") || strings.Contains(got, "administrator") {
			t.Errorf("%s: %s", name, got)
		}
		d.inv = before
		d.after(time.Minute)
		lose(d)
		if got := d.after(time.Minute); !strings.Contains(got, "is lost") {
			t.Errorf("%s: lost again: %q", name, got)
		}
	}
}

func TestDriverThatDoesNotAnswerTellsNothing(t *testing.T) {
	d := newDesk(gpu.Whole, 100*gib)
	d.after(time.Minute)
	d.inv.Problem, d.inv.GPUs = "no driver", nil
	if got := d.after(time.Hour); got != "" {
		t.Error(got)
	}
}

func TestErrorsSinceTheLease(t *testing.T) {
	d := newDesk(gpu.Whole, 100*gib)
	d.inv.GPUs[0].Health = &gpu.Health{Xids: 3, ECC: 7}
	if got := d.after(time.Minute); got != "" {
		t.Errorf("of before: %s", got)
	}
	d.inv.GPUs[0].Health = &gpu.Health{Xids: 4, Xid: 94, ECC: 7}
	if got := d.after(time.Minute); strings.Count(got, "Xid 94") != 1 {
		t.Error(got)
	}
	d.inv.GPUs[0].Health = &gpu.Health{Xids: 4, Xid: 94, ECC: 8}
	if got := d.after(time.Minute); strings.Count(got, "compute it again") != 1 {
		t.Error(got)
	}
}

func TestHints(t *testing.T) {
	for name, c := range map[string]struct {
		mode        gpu.Mode
		peak, after int64
		want        string
	}{
		"too large":       {gpu.MIG, 4 * gib, 0, "it has used at most 4"},
		"whole":           {gpu.Whole, 4 * gib, 0, "it has used at most 4"},
		"well chosen":     {gpu.MIG, 10 * gib, 0, ""},
		"grows":           {gpu.MIG, 3 * gib, 4 * gib, "it has used at most 3"},
		"too small":       {gpu.MPS, 39 * gib, 0, "choose a kernel with a larger one"},
		"takes all at on": {gpu.Whole, 39 * gib, 0, ""},
		"unused":          {gpu.MIG, 0, 0, "has not used it"},
	} {
		d := newDesk(c.mode, 40*gib)
		d.after(time.Hour) // what it did is not known
		d.peak(c.peak)
		if got := d.after(soonest - time.Minute); got != "" {
			t.Errorf("%s: too early: %s", name, got)
		}
		d.busy = true
		if got := d.after(time.Hour); got != "" {
			t.Errorf("%s: told while a cell runs: %s", name, got)
		}
		d.busy = false
		got := d.after(time.Hour)
		if c.after > 0 {
			d.peak(c.after)
			got += d.after(time.Hour)
		}
		if strings.Contains(got, "|") || c.want == "" && got != "" || !strings.Contains(got, c.want) || strings.HasSuffix(got, ". Say so") != (got != "") {
			t.Errorf("%s: %q", name, got)
		}
		d = newDesk(c.mode, 40*gib)
		d.deaf = true
		d.peak(c.peak)
		if got := d.after(2 * time.Hour); got != "" {
			t.Errorf("%s: told who wants no hints: %s", name, got)
		}
	}
}

// What a kernel is told of a slice that it does not use keeps it from no other advice.
func TestOtherAdviceIsGivenToo(t *testing.T) {
	d := newDesk(gpu.MIG, 40*gib)
	var told []string
	for _, peak := range []int64{0, 3 * gib, 4 * gib, 39 * gib} {
		d.peak(peak)
		told = append(told, d.after(time.Hour))
	}
	if !strings.Contains(told[0], "has not used it") || !strings.Contains(told[1], "it has used at most 3") || told[2] != "" || !strings.Contains(told[3], "a larger one") {
		t.Errorf("%q", told)
	}
}
