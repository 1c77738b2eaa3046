package gpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNeeds(t *testing.T) {
	for _, tc := range []struct {
		text    string
		want    Request
		written string // empty: as text
	}{
		{text: "any", want: Request{Mode: Any}},
		{text: "any,optional", want: Request{Mode: Any, Needs: Needs{Optional: true}}},
		{
			text: "any,count=2,capability>=8.0,memory>=40G,runtime>=12.2,driver>=550.54,optional",
			want: Request{Mode: Any, Needs: Needs{Count: 2, Capability: "8.0", Memory: 40 << 30, Runtime: "12.2", Driver: "550.54", Optional: true}},
		},
		{
			text: " Any , Driver >= 550,Memory>= 1.5g, capability>=8", written: "any,capability>=8.0,memory>=1536M,driver>=550",
			want: Request{Mode: Any, Needs: Needs{Capability: "8.0", Memory: 3 << 29, Driver: "550"}},
		},
		{text: "any,count=1", written: "any", want: Request{Mode: Any}},
		{text: "any,capability>=08.0", written: "any,capability>=8.0", want: Request{Mode: Any, Needs: Needs{Capability: "8.0"}}},
		{text: "any,capability>=7.5,capability<=9.0", want: Request{Mode: Any, Needs: Needs{Capability: "7.5", Newest: "9.0"}}},
		{text: "any,capability <= 12", written: "any,capability<=12.0", want: Request{Mode: Any, Needs: Needs{Newest: "12.0"}}},
		{text: "any,capability>=9.0,capability<=10.0", want: Request{Mode: Any, Needs: Needs{Capability: "9.0", Newest: "10.0"}}},
		{text: "any,memory>=8G,can-use", want: Request{Mode: Any, Needs: Needs{Memory: 8 << 30, CanUse: true}}},
		{text: "whole,count=4", want: Request{Mode: Whole, Needs: Needs{Count: 4}}},
		{text: "1g.18gb,optional", want: Request{Mode: MIG, Profile: "1g.18gb", Needs: Needs{Optional: true}}},
	} {
		got, err := ParseRequest(tc.text)
		if err != nil {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q: %s", tc.text, diff)
		}
		if tc.written == "" {
			tc.written = tc.text
		}
		if got.String() != tc.written {
			t.Errorf("%q is written as %q", tc.text, got)
		}
	}
}

func TestBadNeeds(t *testing.T) {
	for _, text := range []string{
		"any,capability<9.0", "any,capability=<9.0", "any,capability<=9.0,capability<=9.0", "any,capability>=9.0,capability<=8.6",
		"any,memory<=40G", "any,can-use=1", "any,can-use,optional", "any,can-use,count=2", "any,canuse", "none,can-use", "any,count=>2", "any,optional>=",
		"any,", "any,,optional", "any,optional=1", "any,optional,optional", "any,capability=8.0", "any,capability>8.0", "any,capability>=", "any,capability>=8.0.1",
		"any,capability>=x", "any,memory>=0", "any,memory>=-1G", "any,count=0", "any,count=-1", "any,count=65", "any,count>=2", "any,count=two",
		"any,driver>=", "any,driver>=550.x", `any,driver>=550"`, "any,runtime>=12.2.1", "any,runtime", "any,speed>=1", "any,any", ",optional", "none,optional", "half,optional",
	} {
		if r, err := ParseRequest(text); err == nil {
			t.Errorf("%q is read as %q", text, r)
		}
	}
}

// TestNeedsAreNotMetHere has what a host leases refuse needs, which it does not look at.
func TestNeedsAreNotMetHere(t *testing.T) {
	s := Slice{Mode: Whole, Tier: Hardware}
	if !s.Satisfies(Request{Mode: Whole}) || s.Satisfies(Request{Mode: Whole, Needs: Needs{Memory: 1}}) || s.Satisfies(Request{Mode: Any}) {
		t.Error("a slice is taken to fulfil what nobody has looked at")
	}
}

func TestGPUs(t *testing.T) {
	for text, want := range map[string]int{"none": 0, "any,can-use": 0, "any": 1, "any,count=3": 3, "whole": 1} {
		if r, err := ParseRequest(text); err != nil || r.GPUs() != want {
			t.Errorf("%s asks for %d GPUs, %v", text, r.GPUs(), err)
		}
	}
	r, err := ParseRequest("any,capability>=8.0")
	if err != nil || r.Bare() != (Request{Mode: Any}) {
		t.Errorf("without its needs it is %v, %v", r.Bare(), err)
	}
}
