package fakegpu_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
)

func TestInstancesOutliveTheService(t *testing.T) {
	cfg := fakegpu.Config{Models: []string{"H200", "A100-40", "A30/mig"}, State: filepath.Join(t.TempDir(), "gpus.json")}
	d := with(t, cfg)
	all, err := d.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	is(t, "SetMIG()", d.SetMIG(t.Context(), all[0].UUID, true), nil)
	is(t, "SetMIG()", d.SetMIG(t.Context(), all[1].UUID, true), gpu.ErrPending)
	create(t, d, all[0].UUID, "3g.71gb", 4, 4)
	gone := create(t, d, all[0].UUID, "1g.18gb", 0, 1)
	left := create(t, d, all[0].UUID, "1g.18gb", 1, 1)
	is(t, "DestroyInstance()", d.DestroyInstance(t.Context(), all[0].UUID, gone.GI), nil)
	d.Fail("", fakegpu.Fault{On: fakegpu.OpDestroy, Remnant: true})
	is(t, "DestroyInstance()", d.DestroyInstance(t.Context(), all[0].UUID, left.GI), nil)

	again := with(t, cfg)
	if diff := cmp.Diff(instances(t, d, all[0].UUID), instances(t, again, all[0].UUID)); diff != "" {
		t.Error(diff)
	}
	if got := instances(t, again, all[0].UUID); len(got) != 2 || got[1].CI != -1 {
		t.Errorf("afterwards there are %+v", got)
	}
	was, _ := d.Devices(t.Context())
	now, _ := again.Devices(t.Context())
	if diff := cmp.Diff(was, now); diff != "" {
		t.Error(diff)
	}
	is(t, "Reset()", again.Reset(all[1].UUID), nil) // the switch that was pending
	create(t, with(t, cfg), all[1].UUID, "1g.5gb", 0, 1)
}

func TestAnotherModelIsAnotherGPU(t *testing.T) {
	state := filepath.Join(t.TempDir(), "gpus.json")
	d := with(t, fakegpu.Config{Models: []string{"H200/mig"}, State: state})
	create(t, d, device(t, d).UUID, "1g.18gb", 0, 1)
	d = with(t, fakegpu.Config{Models: []string{"H100-80/mig"}, State: state})
	if got := instances(t, d, device(t, d).UUID); len(got) > 0 {
		t.Errorf("a new GPU is cut into %+v", got)
	}
}

func TestADamagedStateIsSaid(t *testing.T) {
	state := filepath.Join(t.TempDir(), "gpus.json")
	cfg := fakegpu.Config{Models: []string{"H200/mig"}, State: state}
	d := with(t, cfg)
	create(t, d, device(t, d).UUID, "1g.18gb", 0, 1)
	good, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"cut off":         string(good[:len(good)/2]),
		"empty":           "",
		"no such profile": strings.Replace(string(good), "1g.18gb", "1g.19gb", 1),
		"no such place":   strings.Replace(string(good), `"start": 0`, `"start": 7`, 1),
		"mode off":        strings.Replace(string(good), `"mig": true`, `"mig": false`, 1),
	} {
		if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := fakegpu.New(cfg); err == nil || !strings.Contains(err.Error(), state) || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What cannot be remembered is not done.
func TestAChangeThatCannotBeSavedIsUndone(t *testing.T) {
	dir := t.TempDir()
	d := with(t, fakegpu.Config{Models: []string{"H200/mig"}, State: filepath.Join(dir, "sub", "gpus.json")})
	uuid := device(t, d).UUID
	if in, err := d.CreateInstance(t.Context(), uuid, "1g.18gb", lowest); err == nil {
		t.Errorf("CreateInstance() = %+v", in)
	}
	if got := instances(t, d, uuid); len(got) > 0 {
		t.Errorf("there are %+v", got)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	create(t, d, uuid, "1g.18gb", 0, 1)
	if names, err := filepath.Glob(filepath.Join(dir, "sub", "*")); err != nil || len(names) != 1 {
		t.Errorf("there are files %v, %v", names, err)
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"GPU-x":{"mig":true,"want":true,"instances":[{"gi":1,"ci":-1,"profile":"3g.71gb","placement":{"start":4,"size":4}}]}}`))
	f.Add([]byte(`null`))
	state := filepath.Join(f.TempDir(), "gpus.json")
	d := with(f, fakegpu.Config{Models: []string{"H200/mig"}, State: state})
	create(f, d, device(f, d).UUID, "3g.71gb", 4, 4)
	text, err := os.ReadFile(state)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		state := filepath.Join(t.TempDir(), "gpus.json")
		if err := os.WriteFile(state, text, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := fakegpu.New(fakegpu.Config{Models: []string{"H200/mig", "L40S"}, State: state})
		if err != nil {
			return
		}
		used := 0
		for _, in := range instances(t, d, device(t, d).UUID) {
			used += in.Placement.Size
		}
		if used > 8 {
			t.Errorf("%d of 8 slots are in use", used)
		}
	})
}
