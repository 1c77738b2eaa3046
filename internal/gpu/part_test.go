package gpu

import "testing"

func TestParts(t *testing.T) {
	for name, tc := range map[string]struct {
		s    Slice
		want float64
	}{
		"whole":                    {Slice{Mode: Whole}, 1},
		"a quarter by MPS":         {Slice{Mode: MPS, Percent: 25}, 0.25},
		"the smallest cut":         {Slice{Mode: MIG, Model: "NVIDIA H200", Profile: "1g.18gb", Placement: Placement{Size: 1}}, 1.0 / 7},
		"a cut with more memory":   {Slice{Mode: MIG, Model: "NVIDIA H200", Profile: "1g.35gb", Placement: Placement{Size: 2}}, 0.25},
		"a cut that is all":        {Slice{Mode: MIG, Model: "NVIDIA H200", Profile: "7g.141gb", Placement: Placement{Size: 8}}, 1},
		"a cut of a small one":     {Slice{Mode: MIG, Model: "NVIDIA A30", Profile: "2g.12gb", Placement: Placement{Start: 2, Size: 2}}, 0.5},
		"in turns":                 {Slice{Mode: Shared}, 0.25},
		"a profile nobody has met": {Slice{Mode: MIG, Profile: "odd"}, 1},
	} {
		if got := tc.s.Part(); got != tc.want {
			t.Errorf("%s: %g, want %g", name, got, tc.want)
		}
	}
	if got := (Request{}).Part(); got != 0 {
		t.Errorf("no GPU: %g", got)
	}
}
