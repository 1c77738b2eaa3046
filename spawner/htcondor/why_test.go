package htcondor

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
		d     demand
	}{
		"a job that can start":           {[]string{"idle"}, demand{resources: small}},
		"nothing there":                  {nil, demand{resources: small}},
		"a MIG instance of an old pool":  {[]string{"idle"}, demand{resources: small, gpu: asked(t, "1g.5gb")}},
		"its capability is not told":     {[]string{"idle"}, demand{resources: small, gpu: asked(t, "1g.5gb,capability>=8.0")}},
		"the only whole GPU is taken":    {[]string{"busy"}, demand{resources: small, gpu: asked(t, "whole")}},
		"too much of everything":         {[]string{"idle"}, demand{resources: spawner.Resources{CPUs: 9, Memory: 9 << 40}, gpu: asked(t, "any,memory>=80G")}},
		"more processors than are free":  {[]string{"busy"}, demand{resources: spawner.Resources{CPUs: 6, Memory: 1 << 30}}},
		"three whole GPUs":               {[]string{"idle", "later"}, demand{resources: small, gpu: asked(t, "whole,count=3")}},
		"no GPU has all of it":           {[]string{"idle"}, demand{resources: small, gpu: asked(t, "any,capability>=7.0,memory>=30G")}},
		"each has a part of it":          {[]string{"later"}, demand{resources: small, gpu: asked(t, "1g.18gb,memory>=20G")}},
		"a new driver":                   {[]string{"idle", "later"}, demand{resources: small, gpu: asked(t, "any,driver>=580")}},
		"a CUDA runtime":                 {[]string{"idle", "later"}, demand{resources: small, gpu: asked(t, "any,runtime>=12.4,driver>=570.86")}},
		"part of a GPU is not whole":     {[]string{"divided"}, demand{resources: small, gpu: asked(t, "whole")}},
		"optional":                       {[]string{"later"}, demand{resources: small, arch: "X86_64", gpu: asked(t, "any,memory>=500G,optional")}},
		"another architecture":           {[]string{"idle", "later"}, demand{resources: small, arch: "aarch64"}},
		"what the site requires":         {[]string{"idle", "later"}, demand{resources: small, site: []string{"HasSingularity && TARGET.IsGood"}}},
		"the machine wants sessions":     {[]string{"later"}, demand{resources: small, arch: "aarch64", facts: map[string]classad.Value{"SlipwayInteractive": false}}},
		"what cannot be judged":          {[]string{"idle"}, demand{resources: small, site: []string{"regexps(\"a\", Machine) == 1"}}},
		"a share that no pool announces": {[]string{"later"}, demand{resources: small, gpu: asked(t, "mps:25%/20G")}},
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
		e := explanation(demand{resources: spawner.Resources{CPUs: 5, Memory: 1 << 30}, gpu: asked(t, text)}, slots)
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
	err := refusal(explanation(demand{resources: resources, gpu: asked(t, "any,memory>=80G")}, slots))
	if !errs.Is(err, errs.OverQuota) || !strings.Contains(err.Error(), "memory of 80 GB or more") || !strings.Contains(err.Error(), "ask for less memory of the GPU") {
		t.Errorf("it is refused with %v", err)
	}
	for _, r := range []string{"any", "any,memory>=80G,optional", "none"} {
		if err := refusal(explanation(demand{resources: resources, gpu: asked(t, r)}, slots)); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	if err := refusal(explanation(demand{resources: resources, gpu: asked(t, "any")}, nil)); err != nil {
		t.Errorf("a pool that has nothing now: %v", err)
	}
}
