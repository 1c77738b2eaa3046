package placementsim

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu/placement"
)

func report(t *testing.T, text string, policies ...placement.Policy) Report {
	t.Helper()
	trace, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := trace.Run(models(), policies)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Everything about this trace can be counted by hand. Two GPUs; in the first hour 7g and 4g hold both, so the second 4g
// is refused and 3g is not; the last 4g comes when the first GPU is free again.
func TestAReplayByHand(t *testing.T) {
	r := report(t, `
fleet: [{model: H200, count: 2, mode: mig}]
requests:
  - {at: 0s, duration: 1h, gpu: 7g.141gb}
  - {at: 0s, duration: 2h, gpu: 4g}
  - {at: 30m, duration: 1h, gpu: 4g}
  - {at: 30m, duration: 90m, gpu: 3g.71gb}
  - {at: 1h, duration: 1h, gpu: 4g}
  - {at: 2h, duration: 2h, gpu: 4g}
`, placement.First)
	// Slices held: 7 for 1 h, 4 for 2 h, 3 for 1.5 h, 4 for 1 h and 4 for 2 h, of 14 for 4 h.
	used := (7*1 + 4*2 + 3*1.5 + 4*1 + 4*2) / (14 * 4.0)
	got := r.Policies[0]
	want := Result{Policy: placement.First, Accepted: 5, Acceptance: 5.0 / 6, Weighted: 22.0 / 26, Utilisation: used, Fragmentation: got.Fragmentation, Made: 4, Reused: 1}
	if diff := cmp.Diff(want, got, almost()); diff != "" {
		t.Error(diff)
	}
	// Asked: 7 + 8 + 4 + 4.5 + 4 + 8 slice hours in the 2 h between first and last, of 14.
	if r.GPUs != 2 || r.Requests != 6 || math.Abs(r.Load-35.5/28) > 1e-9 || r.Never != nil {
		t.Errorf("%+v", r)
	}
}

func almost() cmp.Option {
	return cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
}

// Half a GPU is free, all the time, and of no use to whole ones; to the smaller half of the requests it is of all use.
func TestFragmentationIsWhatRequestsCannotUse(t *testing.T) {
	r := report(t, `
fleet: [{model: A30, mode: mig}]
requests:
  - {at: 0s, duration: 1h, gpu: 2g.12gb}
  - {at: 0s, duration: 1h, gpu: 4g.24gb}
`, placement.Frag)
	if f := r.Policies[0].Fragmentation; f == nil || math.Abs(*f-0.5) > 1e-9 {
		t.Errorf("%+v", r.Policies[0])
	}
	if r := report(t, "fleet: [{model: L40S, mode: whole}]\nrequests: [{at: 0s, duration: 1h, gpu: whole}]", placement.Frag); r.Policies[0].Fragmentation != nil {
		t.Error("what cannot be cut is fragmented")
	}
}

func TestWaiting(t *testing.T) {
	const text = `
fleet: [{model: L40S, mode: whole}]
patience: 90m
requests:
  - {at: 0s, duration: 1h, gpu: whole}
  - {at: 0s, duration: 1h, gpu: whole}
  - {at: 0s, duration: 1h, gpu: whole}
  - {at: 110m, duration: 1h, gpu: whole}
`
	// The second waits 1 h. The third would have to wait 2 h, and leaves; so the last waits 10 min.
	got := report(t, text, placement.Frag).Policies[0]
	want := Wait{Mean: (0 + 3600 + 600) / 3.0, P50: 600, P95: 3600}
	if diff := cmp.Diff(want, got.Wait, almost()); diff != "" || got.Accepted != 3 {
		t.Errorf("%d accepted, %s", got.Accepted, diff)
	}
	got = report(t, strings.Replace(text, "patience: 90m", "patience: 0s", 1), placement.Frag).Policies[0]
	if got.Accepted != 2 || got.Wait != (Wait{}) {
		t.Errorf("who does not wait: %+v", got)
	}
}

// Whoever waits for much does not hold up those who want little.
func TestSmallOnesPassLargeOnes(t *testing.T) {
	got := report(t, `
fleet: [{model: H200, mode: mig}]
patience: 24h
requests:
  - {at: 0s, duration: 2h, gpu: 4g}
  - {at: 1m, duration: 1h, gpu: 7g}
  - {at: 2m, duration: 1h, gpu: 3g}
`, placement.Frag).Policies[0]
	if got.Accepted != 3 || got.Wait.P50 != 0 || math.Abs(got.Wait.Mean-119*60/3.0) > 1e-9 {
		t.Errorf("%+v", got)
	}
}

func TestAllModesTakePart(t *testing.T) {
	got := report(t, `
fleet:
  - {model: H200, mode: mig, layout: [4g, 3g.71gb]}
  - {model: L40S, mode: mps, equal_shares: true}
  - {model: L40S, mode: shared, at_once: 2}
requests:
  - {at: 0s, duration: 1h, gpu: 3g}
  - {at: 0s, duration: 1h, gpu: 3g}
  - {at: 0s, duration: 1h, gpu: mps:50%/10G}
  - {at: 0s, duration: 1h, gpu: mps:25%/10G}
  - {at: 0s, duration: 1h, gpu: mps:50%/10G}
  - {at: 0s, duration: 1h, gpu: shared, group: higgs}
  - {at: 0s, duration: 1h, gpu: shared, group: top}
  - {at: 0s, duration: 1h, gpu: shared/1G, group: higgs}
  - {at: 0s, duration: 1h, gpu: 1g}
  - {at: 0s, duration: 1h, gpu: 1g}
  - {at: 0s, duration: 1h, gpu: whole, model: A100}
`, placement.Policies()...)
	for _, p := range got.Policies {
		if p.Accepted != 5 || p.Made != 0 || p.Reused != 1 || math.Abs(p.Utilisation-(3.0/7+1+1)/3) > 1e-9 || p.Fragmentation != nil {
			t.Errorf("%+v", p)
		}
	}
	want := []Never{
		{GPU: "1g", Requests: 2, Why: "1g asked, and no GPU is cut so; there is 3g.71gb, 4g.71gb"},
		{GPU: "whole", Requests: 1, Why: "whole asked, and no GPU is given out whole; there is mig, mps, shared"},
	}
	if diff := cmp.Diff(want, got.Never); diff != "" {
		t.Error(diff)
	}
}

// The example is good, gives the same each time, and frag is the best of the policies on it.
func TestTheExample(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/bench/gpu/trace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first := report(t, string(text), placement.Policies()...)
	if diff := cmp.Diff(first, report(t, string(text), placement.Policies()...)); diff != "" {
		t.Errorf("two runs differ: %s", diff)
	}
	if math.Abs(first.Load-0.8) > 0.03 || len(first.Never) > 0 {
		t.Errorf("load %.3f, never %v", first.Load, first.Never)
	}
	for _, p := range first.Policies[1:] {
		if p.Weighted >= first.Policies[0].Weighted {
			t.Errorf("%s accepts %.4f, frag %.4f", p.Policy, p.Weighted, first.Policies[0].Weighted)
		}
	}
}
