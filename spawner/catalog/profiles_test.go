package catalog

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/spawner"
)

func catalogue() Catalogue {
	return Catalogue{
		Images: []ImageChoice{{Name: "notebook", Title: "Python", Ref: "slipway/notebook:1"}, {Name: "root", Title: "ROOT", Ref: "slipway/root:6"}},
		Profiles: []Profile{
			{Name: "big", Title: "Big", Kind: spawner.Lab, Images: []string{"root", "notebook"}, CPUs: 4, Memory: 8 << 30, Pids: 99, Ready: "lab/api"},
			{Name: "small", Title: "Small", Kind: spawner.Lab, Images: []string{"notebook"}, CPUs: 1, MaxCPUs: 2, Memory: 2 << 30, MaxMemory: 4 << 30, Default: true},
		},
	}
}

func TestResolve(t *testing.T) {
	small := spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "small", Image: "slipway/notebook:1", Ready: "api"}, Resources: spawner.Resources{CPUs: 1, Memory: 2 << 30, Pids: 4096}}
	more := small
	more.Resources = spawner.Resources{CPUs: 1.5, Memory: 3 << 30, Pids: 4096}
	big := spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: "big", Image: "slipway/root:6", Ready: "lab/api"}, Resources: spawner.Resources{CPUs: 4, Memory: 8 << 30, Pids: 99}}
	for _, tc := range []struct {
		name, options string
		want          spawner.Spec
	}{
		{"nothing", `{}`, small},
		{"null object", `null`, small},
		{"nulls and empty strings, as a form sends them", `{"profile":"","image":null,"cpus":"","memory":" "}`, small},
		{"numbers", `{"cpus":1.5,"memory":3221225472}`, more},
		{"strings", `{"cpus":" 1.5","memory":"3G"}`, more},
		{"fraction of a unit", `{"cpus":"1.5","memory":"3072M"}`, more},
		{"another profile has its own first image", `{"profile":"big"}`, big},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var options map[string]any
			if err := json.Unmarshal([]byte(tc.options), &options); err != nil {
				t.Fatal(err)
			}
			kind, got, err := catalogue().Resolve(options)
			if err != nil || kind != spawner.Lab {
				t.Fatalf("Resolve = %q, %v", kind, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, options, field, remedy string
	}{
		{"unknown option", `{"gpu":"1"}`, "options.gpu", "cpus, image, memory, profile"},
		{"unknown profile", `{"profile":"huge"}`, "profile", "one of big, small"},
		{"profile of another case", `{"profile":"Small"}`, "profile", "one of big, small"},
		{"unknown image", `{"image":"evil/image:1"}`, "image", "profile small offers notebook"},
		{"reference instead of name", `{"image":"slipway/notebook:1"}`, "image", "profile small offers notebook"},
		{"image of another profile", `{"image":"root"}`, "image", "profile small offers notebook"},
		{"cpus beyond policy", `{"cpus":2.5}`, "cpus", "at most 2"},
		{"cpus beyond a profile without a range", `{"profile":"big","cpus":"5"}`, "cpus", "at most 4"},
		{"no cpus", `{"cpus":0}`, "cpus", "above 0"},
		{"negative cpus", `{"cpus":"-1"}`, "cpus", "above 0"},
		{"not a number", `{"cpus":"NaN"}`, "cpus", "above 0"},
		{"infinite", `{"cpus":"Inf"}`, "cpus", "at most 2"},
		{"huge", `{"cpus":1e300}`, "cpus", "is more than the 2"},
		{"words", `{"cpus":"two"}`, "cpus", "a number"},
		{"list", `{"cpus":["1"]}`, "cpus", "a number"},
		{"bool", `{"cpus":true}`, "cpus", "a number"},
		{"memory beyond policy", `{"memory":"5G"}`, "memory", "5 GiB is more than the 4 GiB that a session of profile"},
		{"too little memory", `{"memory":"1M"}`, "memory", "1 MiB is less than the 64 MiB"},
		{"memory in bare units", `{"memory":"2"}`, "memory", "2 B is less than the 64 MiB"},
		{"negative memory", `{"memory":-5}`, "memory", "from 64 MiB"},
		{"huge memory", `{"memory":1e30}`, "memory", "to 4 GiB"},
		{"memory overflow", `{"memory":"99999999999T"}`, "memory", "to 4 GiB"},
		{"memory as object", `{"memory":{}}`, "memory", "a size"},
		{"profile as number", `{"profile":3}`, "profile", "a name"},
		{"image as list", `{"image":["notebook"]}`, "image", "a name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var options map[string]any
			if err := json.Unmarshal([]byte(tc.options), &options); err != nil {
				t.Fatal(err)
			}
			_, _, err := catalogue().Resolve(options)
			wantBad(t, err, tc.field, tc.remedy)
		})
	}
}

func wantBad(t *testing.T, err error, field, words string) {
	t.Helper()
	e, ok := err.(*errs.Error)
	if !ok || e.Kind != errs.Invalid || e.Field != field || !strings.Contains(e.Error(), words) || e.Remedy == "" {
		t.Errorf("error %#v; want field %q, a remedy, and the words %q", err, field, words)
	}
}

func TestResolveBoundsWhatItRepeats(t *testing.T) {
	_, _, err := catalogue().Resolve(map[string]any{"profile": strings.Repeat("é", 1<<20)})
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

func TestResolveOfAnEmptyCatalogue(t *testing.T) {
	if _, _, err := (Catalogue{}).Resolve(nil); !errs.Is(err, errs.Missing) {
		t.Errorf("Resolve = %v", err)
	}
}

func TestCatalogueCheck(t *testing.T) {
	if err := catalogue().Check(); err != nil {
		t.Errorf("a good catalogue: %v", err)
	}
	for _, tc := range []struct {
		name   string
		change func(*Catalogue)
		want   string
	}{
		{"same image twice", func(c *Catalogue) { c.Images[1].Name = "notebook" }, "images[1].name"},
		{"image without reference", func(c *Catalogue) { c.Images[0].Ref = "" }, "images[0].ref"},
		{"same profile twice", func(c *Catalogue) { c.Profiles[1].Name = "big" }, "profiles[1].name"},
		{"no default", func(c *Catalogue) { c.Profiles[1].Default = false }, "exactly one"},
		{"two defaults", func(c *Catalogue) { c.Profiles[0].Default = true }, "exactly one"},
		{"unknown kind", func(c *Catalogue) { c.Profiles[0].Kind = "vm" }, "profiles[0].kind"},
		{"jobs are no profile", func(c *Catalogue) { c.Profiles[0].Kind = spawner.Job }, "profiles[0].kind"},
		{"no image", func(c *Catalogue) { c.Profiles[0].Images = nil }, "profiles[0].images"},
		{"unknown image", func(c *Catalogue) { c.Profiles[0].Images = []string{"x"} }, "profiles[0].images"},
		{"no cpus", func(c *Catalogue) { c.Profiles[0].CPUs = 0 }, "profiles[0].cpus"},
		{"cpus not a number", func(c *Catalogue) { c.Profiles[0].CPUs = math.NaN() }, "profiles[0].cpus"},
		{"max below default", func(c *Catalogue) { c.Profiles[1].MaxCPUs = 0.5 }, "profiles[1].max_cpus"},
		{"too little memory", func(c *Catalogue) { c.Profiles[0].Memory = 2 }, "profiles[0].memory"},
		{"max memory below", func(c *Catalogue) { c.Profiles[1].MaxMemory = 1 << 30 }, "profiles[1].max_memory"},
		{"negative pids", func(c *Catalogue) { c.Profiles[1].Pids = -1 }, "profiles[1].pids"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := catalogue()
			tc.change(&c)
			if err := c.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Check = %v, want one about %q", err, tc.want)
			}
		})
	}
}

func FuzzResolve(f *testing.F) {
	f.Add(`{"profile":"small","cpus":"1","memory":"2G"}`)
	f.Add(`{"cpus":1e400}`)
	f.Add(`{"memory":[{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var options map[string]any
		if json.Unmarshal([]byte(text), &options) != nil {
			return
		}
		_, spec, err := catalogue().Resolve(options)
		r := spec.Resources
		if err == nil && !(r.CPUs > 0 && r.CPUs <= 4 && r.Memory >= minMemory && r.Memory <= 8<<30 && spec.Image != "") {
			t.Fatalf("Resolve(%s) = %+v", text, spec)
		}
	})
}

func TestJobPolicy(t *testing.T) {
	p := JobPolicy{DefaultCPUs: 1, MaxCPUs: 2, DefaultMemory: 2 << 30, MaxMemory: 8 << 30, DefaultTime: time.Hour, MaxTime: 24 * time.Hour}
	ok := []struct {
		cpus, memory, limit any
		want                spawner.Resources
		time                time.Duration
	}{
		{nil, nil, nil, spawner.Resources{CPUs: 1, Memory: 2 << 30, Pids: 4096}, time.Hour},
		{"", "", "", spawner.Resources{CPUs: 1, Memory: 2 << 30, Pids: 4096}, time.Hour},
		{2.0, "8G", "90m", spawner.Resources{CPUs: 2, Memory: 8 << 30, Pids: 4096}, 90 * time.Minute},
		{"0.5", 1073741824.0, 30.0, spawner.Resources{CPUs: 0.5, Memory: 1 << 30, Pids: 4096}, 30 * time.Second},
	}
	for _, tc := range ok {
		r, d, err := p.Resolve(tc.cpus, tc.memory, tc.limit)
		if err != nil || r != tc.want || d != tc.time {
			t.Errorf("Resolve(%v, %v, %v) = %+v, %v, %v", tc.cpus, tc.memory, tc.limit, r, d, err)
		}
	}
	for _, tc := range []struct {
		cpus, memory, limit any
		field, words        string
	}{
		{3.0, nil, nil, "cpus", "cpus: 3 is more than the 2 that a job may have here"}, {nil, "9G", nil, "memory", "9 GiB is more than the 8 GiB that"},
		{0.001, nil, nil, "cpus", "0.001 is less than the 0.01"}, {nil, nil, "25h", "time_limit", "25h is more than the 24h that a job may have here"},
		{nil, nil, "-1h", "time_limit", `"-1h" is not valid`}, {nil, nil, "1 fortnight", "time_limit", "is not valid"}, {nil, nil, math.Inf(1), "time_limit", ""},
		{nil, nil, math.NaN(), "time_limit", "is not valid"}, {nil, nil, 0.0, "time_limit", "is not valid"}, {nil, nil, 1e300, "time_limit", "is more than the 24h"},
		{nil, nil, true, "time_limit", "is not valid"}, {nil, nil, "1ms", "time_limit", "1ms is less than the 1s that a job needs"},
	} {
		_, _, err := p.Resolve(tc.cpus, tc.memory, tc.limit)
		wantBad(t, err, tc.field, tc.words)
	}
}

// What Again gives is what Resolve makes the same session of.
func TestAgain(t *testing.T) {
	c := Catalogue{
		Images:   []ImageChoice{{Name: "a", Ref: "site/a:1"}, {Name: "b", Ref: "site/b:1"}},
		Profiles: []Profile{{Name: "small", Kind: spawner.Lab, Images: []string{"a", "b"}, CPUs: 1, MaxCPUs: 2, Memory: 1 << 30, MaxMemory: 4 << 30, Default: true}},
	}
	_, want, err := c.Resolve(map[string]any{"image": "b", "cpus": "1.5", "memory": "3G"})
	if err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Resolve(c.Again(want)); err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
	want.Environment = "sha256:x"
	if o := c.Again(want); o["environment"] != "sha256:x" || o["image"] != nil {
		t.Errorf("from an environment: %v", o)
	}
}
