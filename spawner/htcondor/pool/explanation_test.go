package pool

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/htcondor/classad"
)

var updateAds = flag.Bool("update-ads", false, "write the explanations of testdata/ads anew")

// TestExplanations holds what is explained of the captured slots to testdata/ads/why.json.
func TestExplanations(t *testing.T) {
	small := spawner.Resources{CPUs: 1, Memory: 1 << 30}
	got := map[string]spawner.Explanation{}
	for name, tc := range map[string]struct {
		slots []string
		d     Demand
	}{
		"a job that can start":           {[]string{"idle"}, Demand{Resources: small}},
		"nothing there":                  {nil, Demand{Resources: small}},
		"a MIG instance of an old pool":  {[]string{"idle"}, Demand{Resources: small, GPU: asked(t, "1g.5gb")}},
		"its capability is not told":     {[]string{"idle"}, Demand{Resources: small, GPU: asked(t, "1g.5gb,capability>=8.0")}},
		"the only whole GPU is taken":    {[]string{"busy"}, Demand{Resources: small, GPU: asked(t, "whole")}},
		"too much of everything":         {[]string{"idle"}, Demand{Resources: spawner.Resources{CPUs: 9, Memory: 9 << 40}, GPU: asked(t, "any,memory>=80G")}},
		"more processors than are free":  {[]string{"busy"}, Demand{Resources: spawner.Resources{CPUs: 6, Memory: 1 << 30}}},
		"three whole GPUs":               {[]string{"idle", "later"}, Demand{Resources: small, GPU: asked(t, "whole,count=3")}},
		"no GPU has all of it":           {[]string{"idle"}, Demand{Resources: small, GPU: asked(t, "any,capability>=7.0,memory>=30G")}},
		"each has a part of it":          {[]string{"later"}, Demand{Resources: small, GPU: asked(t, "1g.18gb,memory>=20G")}},
		"a new driver":                   {[]string{"idle", "later"}, Demand{Resources: small, GPU: asked(t, "any,driver>=580")}},
		"a CUDA runtime":                 {[]string{"idle", "later"}, Demand{Resources: small, GPU: asked(t, "any,runtime>=12.4,driver>=570.86")}},
		"part of a GPU is not whole":     {[]string{"divided"}, Demand{Resources: small, GPU: asked(t, "whole")}},
		"optional":                       {[]string{"later"}, Demand{Resources: small, Arch: "X86_64", GPU: asked(t, "any,memory>=500G,optional")}},
		"another architecture":           {[]string{"idle", "later"}, Demand{Resources: small, Arch: "aarch64"}},
		"what the site requires":         {[]string{"idle", "later"}, Demand{Resources: small, Site: []string{"HasSingularity && TARGET.IsGood"}}},
		"the machine wants sessions":     {[]string{"later"}, Demand{Resources: small, Arch: "aarch64", Facts: map[string]classad.Value{"SlipwayInteractive": false}}},
		"what cannot be judged":          {[]string{"idle"}, Demand{Resources: small, Site: []string{"regexps(\"a\", Machine) == 1"}}},
		"a share that no pool announces": {[]string{"later"}, Demand{Resources: small, GPU: asked(t, "mps:25%/20G")}},
	} {
		var slots []slot
		for _, s := range tc.slots {
			slots = append(slots, captured(t, s)...)
		}
		got[name] = explanation(tc.d, slots)
	}
	path := filepath.Join("testdata", "ads", "why.json")
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *updateAds {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text) {
		t.Errorf("explained otherwise (see with -update-ads):\n%s", text)
	}
}

// TestCounts has each explanation's numbers agree with one another.
func TestCounts(t *testing.T) {
	slots := append(captured(t, "busy"), append(captured(t, "later"), captured(t, "divided")...)...)
	for _, text := range []string{"none", "any", "whole", "1g.5gb", "1g.18gb", "any,capability>=8.0", "any,memory>=80G", "any,count=2", "whole,count=9", "any,optional"} {
		e := explanation(Demand{Resources: spawner.Resources{CPUs: 5, Memory: 1 << 30}, GPU: asked(t, text)}, slots)
		if e.Slots != 4 || e.Free > e.Fit || e.Fit > e.Slots || e.Summary == "" || e.Fit == 0 && e.Remedy == "" || e.Fit > 0 && e.Remedy != "" {
			t.Errorf("%s: %+v", text, e)
		}
		for _, c := range e.Clauses {
			if c.Alone > c.Excludes || c.Excludes > e.Slots-e.Fit || c.Words == "" || c.Text == "" {
				t.Errorf("%s: %+v of %+v", text, c, e)
			}
		}
	}
}

func TestRefusal(t *testing.T) {
	slots := captured(t, "idle")
	resources := spawner.Resources{CPUs: 1, Memory: 1 << 30}
	err := refusal(explanation(Demand{Resources: resources, GPU: asked(t, "any,memory>=80G")}, slots))
	if !errs.Is(err, errs.OverQuota) || !strings.Contains(err.Error(), "memory of 80 GB or more") || !strings.Contains(err.Error(), "ask for less memory of the GPU") {
		t.Errorf("it is refused with %v", err)
	}
	for _, r := range []string{"any", "any,memory>=80G,optional", "none"} {
		if err := refusal(explanation(Demand{Resources: resources, GPU: asked(t, r)}, slots)); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	if err := refusal(explanation(Demand{Resources: resources, GPU: asked(t, "any")}, nil)); err != nil {
		t.Errorf("a pool that has nothing now: %v", err)
	}
}
