package gpu

import "testing"

func TestRequests(t *testing.T) {
	for text, want := range map[string]string{
		"": "none", "none": "none", "whole": "whole", "1g.18gb": "1g.18gb", "1g": "1g", "1G.10GB+me": "1g.10gb+me", "mps:25%/20GB": "mps:25%/20G",
		"mps:100%/512M": "mps:100%/512M", "shared": "shared", "shared/10G": "shared/10G", " whole ": "whole",
	} {
		r, err := ParseRequest(text)
		if err != nil || r.String() != want {
			t.Errorf("%q is read as %q, %v", text, r, err)
		}
	}
	for _, text := range []string{"half", "0g.5gb", "mps:0%/1G", "mps:101%/1G", "mps:25%", "mps:25%/0", "shared/", "shared/x", "1g.18gb; rm", "mps:25%/-1G"} {
		if r, err := ParseRequest(text); err == nil {
			t.Errorf("%q is read as %q", text, r)
		}
	}
}

func TestTiers(t *testing.T) {
	for i, strong := range Tiers() {
		for j, weak := range Tiers() {
			if got := strong.AtLeast(weak); got != (i <= j) {
				t.Errorf("%s at least %s: %v", strong, weak, got)
			}
		}
	}
	if Tier("").AtLeast(None) || !None.AtLeast("") || Hardware.AtLeast("unheard of") {
		t.Error("what is no tier")
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, s := range []string{"whole", "1g.18gb", "mps:25%/20G", "shared/1.5G", "none", "any,capability>=8.0,memory>=40G,optional", "whole,count=2,driver>=550.54"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRequest(s)
		if err != nil {
			return
		}
		if again, err := ParseRequest(r.String()); err != nil || again != r {
			t.Errorf("%q is read as %q, and that as %q, %v", s, r, again, err)
		}
	})
}
