package fleet

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
)

func TestStep(t *testing.T) {
	want := gpu.Slice{GPU: "GPU-1", Mode: gpu.MIG, Profile: "3g", Placement: gpu.Placement{Start: 0, Size: 4}}
	in := func(profile string, start, size, ci int) gpu.Instance {
		return gpu.Instance{GPU: "GPU-1", UUID: "MIG-1", Profile: profile, Placement: gpu.Placement{Start: start, Size: size}, CI: ci}
	}
	equal, other, remnant, beside := in("3g", 0, 4, 0), in("4g", 0, 4, 0), in("3g", 0, 4, -1), in("3g", 4, 4, 0)
	for name, c := range map[string]struct {
		there         []found
		static, adopt bool
		do            act
	}{
		"nothing there":              {nil, false, false, makeIt},
		"only beside it":             {[]found{{Instance: beside, own: true, offered: true, held: true}}, false, false, makeIt},
		"ready":                      {[]found{{Instance: equal, own: true, offered: true}}, false, false, useIt},
		"condemned":                  {[]found{{Instance: equal, own: true, offered: true, spoilt: true}}, false, false, destroyIt},
		"own of another profile":     {[]found{{Instance: other, own: true, offered: true}}, false, false, destroyIt},
		"own remnant":                {[]found{{Instance: remnant, own: true, offered: true}}, false, false, destroyIt},
		"held by another":            {[]found{{Instance: equal, own: true, offered: true, held: true}}, false, false, leaveIt},
		"foreign, equal":             {[]found{{Instance: equal}}, false, false, leaveIt},
		"foreign remnant":            {[]found{{Instance: remnant}}, false, false, leaveIt},
		"layout, another":            {[]found{{Instance: other, own: true, offered: true}}, true, false, leaveIt},
		"layout, remnant":            {[]found{{Instance: remnant, own: true, offered: true}}, true, false, destroyIt},
		"layout, gone":               {nil, true, false, makeIt},
		"adopted":                    {[]found{{Instance: equal, offered: true}}, true, true, useIt},
		"adopted, another":           {[]found{{Instance: other, offered: true}}, true, true, leaveIt},
		"adopted, remnant of others": {[]found{{Instance: remnant, offered: true}}, true, true, leaveIt},
		"adopted, gone":              {nil, true, true, leaveIt},
		"own in the way, then held": {[]found{{Instance: in("1g", 0, 1, 0), own: true, offered: true}, {Instance: in("1g", 1, 1, 0), own: true, held: true}},
			false, false, destroyIt},
	} {
		if do, _, why := step(want, c.there, c.static, c.adopt); do != c.do || (do == leaveIt) != (why != "") {
			t.Errorf("%s: %d (%q), want %d", name, do, why, c.do)
		}
	}
}

func TestRuleMatches(t *testing.T) {
	d := gpu.Device{Index: 1, UUID: "GPU-5368a050-64ef", Name: "NVIDIA H100 80GB HBM3"}
	for match, want := range map[string]bool{
		"*": true, "1": true, "0": false, "10": false, "80": false, "GPU-5368a050": true, "GPU-6": false, "h100": true, "H200": false, "": false, "GPU": true,
	} {
		if got := (Rule{Match: match}).matches(d); got != want {
			t.Errorf("%q: %v", match, got)
		}
	}
}

func TestQuarantineGrows(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var q quarantine
	var lasted []time.Duration
	for range 7 {
		q = q.after(gpu.Slice{}, "why", false, now, time.Hour)
		lasted = append(lasted, q.Until.Sub(q.Since))
		now = q.Until
	}
	h := time.Hour
	if diff := cmp.Diff([]time.Duration{h, 2 * h, 4 * h, 8 * h, 16 * h, 16 * h, 16 * h}, lasted); diff != "" {
		t.Error(diff)
	}
	if q = q.after(gpu.Slice{}, "why", false, now.Add(16*time.Hour), time.Hour); q.Times != 1 {
		t.Errorf("after a long time without a fault it starts with %d", q.Times)
	}
}

func TestPack(t *testing.T) {
	d := gpu.Device{Name: "H200", Slots: 8, Profiles: []gpu.Profile{
		{Name: "1g.18gb", Compute: 1, Memory: 18, Max: 7, Placements: places(1, 0, 1, 2, 3, 4, 5, 6)},
		{Name: "1g.18gb+me", Compute: 1, Memory: 18, Max: 1, Placements: places(1, 0, 1, 2, 3, 4, 5, 6)},
		{Name: "1g.35gb", Compute: 1, Memory: 35, Max: 4, Placements: places(2, 0, 2, 4, 6)},
		{Name: "3g.71gb", Compute: 3, Memory: 71, Max: 2, Placements: places(4, 0, 4)},
		{Name: "4g.71gb", Compute: 4, Memory: 71, Max: 1, Placements: places(4, 0)},
	}}
	for _, c := range []struct {
		layout []string
		starts []int // nil: impossible
	}{
		{[]string{"3g", "4g"}, []int{4, 0}},
		{[]string{"1g", "1g", "3g.71GB"}, []int{0, 1, 4}},
		{[]string{"1g.35gb", "4g"}, []int{4, 0}},
		{[]string{"1g.18gb+me", "1g.18gb+me"}, nil},
		{[]string{"1g", "1g", "1g", "1g", "1g", "1g", "1g", "1g"}, nil},
		{[]string{"2g"}, nil},
	} {
		lies, err := pack(d, c.layout)
		var starts []int
		for _, r := range lies {
			starts = append(starts, r.Placement.Start)
		}
		if diff := cmp.Diff(c.starts, starts); diff != "" || (err == nil) != (c.starts != nil) {
			t.Errorf("%v: %v\n%s", c.layout, err, diff)
		}
	}
}

func places(size int, starts ...int) (all []gpu.Placement) {
	for _, start := range starts {
		all = append(all, gpu.Placement{Start: start, Size: size})
	}
	return all
}

func TestOpeners(t *testing.T) {
	root := t.TempDir()
	open := func(pid, name string, files ...string) {
		if err := os.MkdirAll(filepath.Join(root, pid, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, pid, "comm"), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if err := os.Symlink(file, filepath.Join(root, pid, "fd", filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
	}
	open("12", "dcgm", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3")
	open("13", "bash", "/dev/null")
	open("14", "python3", "/dev/nvidia01")
	open("self", "x", "/dev/nvidia0")
	got := openers(root, []string{"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3"})
	if diff := cmp.Diff([]opener{{12, "dcgm"}}, got, cmp.AllowUnexported(opener{})); diff != "" {
		t.Error(diff)
	}
	if got := openers(filepath.Join(root, "none"), []string{"/dev/nvidia0"}); got != nil {
		t.Errorf("of no tree: %v", got)
	}
}

func TestSpoiltOnlyWhatWasThere(t *testing.T) {
	at := gpu.Placement{Start: 0, Size: 1}
	in := gpu.Instance{GPU: "GPU-1", UUID: "MIG-1", Profile: "1g", Placement: at}
	key, now := placeKey("GPU-1", at), time.Now()
	for name, c := range map[string]struct {
		made, since time.Time
		stuck, want bool
	}{
		"made before": {now, now.Add(1), false, true},
		"made after":  {now.Add(1), now, false, false},
		"only stuck":  {now, now.Add(1), true, false},
	} {
		b := book{
			instances:   map[string]record{key: {GPU: "GPU-1", Profile: "1g", Placement: at, Made: c.made}},
			quarantines: map[string]quarantine{key: {Since: c.since, Stuck: c.stuck}},
		}
		if b.spoilt(in) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}
