package fakegpu_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
)

const gib = int64(1) << 30

func occupy(t *testing.T, d *fakegpu.Driver, uuid string, p fakegpu.Process) {
	t.Helper()
	if err := d.Occupy(uuid, p); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, d *fakegpu.Driver, uuid string) gpu.Reading {
	t.Helper()
	r, err := d.Read(t.Context(), uuid)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What each GPU can measure, by whether it is cut.
func TestWhatCanBeMeasured(t *testing.T) {
	one := func(_ time.Duration) fakegpu.Load { return fakegpu.Load{SM: 30, Kernel: 100} }
	for name, want := range map[string]gpu.Reading{
		"H200": {Utilisation: 100, SM: 30, MemoryUsed: 9 * gib, Power: 262500, Temperature: 42, Processes: []gpu.ProcessUse{
			{PID: 7, Memory: 9 * gib, GI: -1, CI: -1, SM: 30},
		}},
		"A100-80": {Utilisation: 100, SM: -1, MemoryUsed: 9 * gib, Power: 162000, Temperature: 42, Processes: []gpu.ProcessUse{
			{PID: 7, Memory: 9 * gib, GI: -1, CI: -1, SM: 30},
		}},
		"H200/mig": {Utilisation: -1, SM: -1, MemoryUsed: 9 * gib, Power: 97727, Temperature: 31, Processes: []gpu.ProcessUse{
			{PID: 7, Memory: 9 * gib, GI: 11, CI: 0, SM: -1},
		}, Instances: map[int]gpu.InstanceUse{11: {SM: 30, MemoryUsed: 9 * gib}, 12: {SM: 0, MemoryUsed: 0}}},
		"A100-80/mig": {Utilisation: -1, SM: -1, MemoryUsed: 9 * gib, Power: 73222, Temperature: 31, Processes: []gpu.ProcessUse{
			{PID: 7, Memory: 9 * gib, GI: 11, CI: 0, SM: -1},
		}, Instances: map[int]gpu.InstanceUse{11: {SM: -1, MemoryUsed: 9 * gib}, 12: {SM: -1, MemoryUsed: 0}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := host(t, name)
			dev := device(t, d)
			if dev.MIGEnabled {
				create(t, d, dev.UUID, dev.Profiles[0].Name, 0, 1)
				create(t, d, dev.UUID, dev.Profiles[0].Name, 1, 1)
			}
			occupy(t, d, dev.UUID, fakegpu.Process{PID: 7, GI: 11, Memory: 9 * gib, Load: one})
			if diff := cmp.Diff(want, read(t, d, dev.UUID)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		})
	}
}

func TestAnIdleGPUIsMeasuredAsIdle(t *testing.T) {
	d := host(t, "H200")
	uuid := device(t, d).UUID
	occupy(t, d, uuid, fakegpu.Process{PID: 3, Memory: gib})
	if r := read(t, d, uuid); r.Utilisation != 0 || r.SM != 0 || r.Processes[0].SM != 0 {
		t.Errorf("a process that does nothing is read as %+v", r)
	}
	d.Leave(3)
	if r := read(t, d, uuid); r.MemoryUsed != 0 || r.Processes == nil || len(r.Processes) != 0 {
		t.Errorf("nobody is there, and it is read as %+v", r)
	}
}

func TestLoadsAddUpToAllThereIs(t *testing.T) {
	d := host(t, "H200")
	uuid := device(t, d).UUID
	for pid := range 3 {
		occupy(t, d, uuid, fakegpu.Process{PID: pid + 1, Load: fakegpu.Steady(45)})
	}
	if r := read(t, d, uuid); r.SM != 100 || r.Utilisation != 100 || len(r.Processes) != 3 {
		t.Errorf("it is read as %+v", r)
	}
}

func TestEnergyIsPowerOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := host(t, "H200")
		uuid := device(t, d).UUID
		time.Sleep(10 * time.Second)
		energy := func(want int64) {
			t.Helper()
			if got := read(t, d, uuid).Energy; math.Abs(float64(got-want)) > float64(want)/100 {
				t.Errorf("energy is %d mJ, not %d", got, want)
			}
		}
		energy(750_000) // 75 W when idle
		duty := func(after time.Duration) fakegpu.Load {
			if after%(2*time.Second) < time.Second {
				return fakegpu.Load{SM: 100, Kernel: 100}
			}
			return fakegpu.Load{}
		}
		occupy(t, d, uuid, fakegpu.Process{PID: 1, Load: duty})
		time.Sleep(20 * time.Second)
		energy(750_000 + 10*75_000 + 10*700_000)
		d.Leave(1)
		time.Sleep(10 * time.Second)
		energy(1_500_000 + 7_000_000 + 750_000)
	})
}

func TestScriptsFollowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := host(t, "H200/mig")
		uuid := device(t, d).UUID
		in := create(t, d, uuid, "2g.35gb", 2, 2)
		time.Sleep(time.Hour)
		occupy(t, d, uuid, fakegpu.Process{PID: 1, GI: in.GI, Load: func(after time.Duration) fakegpu.Load {
			return fakegpu.Load{SM: after.Seconds()}
		}})
		for _, want := range []float64{0, 20, 40} {
			if got := read(t, d, uuid).Instances[in.GI].SM; got != want {
				t.Errorf("the processors are %v busy, not %v", got, want)
			}
			time.Sleep(20 * time.Second)
		}
	})
}

func TestProcessesNeedRoom(t *testing.T) {
	d := host(t, "H200/mig", "A30")
	all, err := d.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := create(t, d, all[0].UUID, "1g.18gb", 0, 1)
	is(t, "too much of an instance", d.Occupy(all[0].UUID, fakegpu.Process{PID: 1, GI: in.GI, Memory: 18 * gib}), gpu.ErrNoRoom)
	is(t, "no such instance", d.Occupy(all[0].UUID, fakegpu.Process{PID: 1, GI: in.GI + 1}), gpu.ErrNotFound)
	is(t, "no such GPU", d.Occupy("GPU-none", fakegpu.Process{PID: 1}), gpu.ErrNotFound)
	occupy(t, d, all[1].UUID, fakegpu.Process{PID: 1, Memory: 20 * gib})
	is(t, "too much beside another", d.Occupy(all[1].UUID, fakegpu.Process{PID: 2, Memory: 5 * gib}), gpu.ErrNoRoom)
}
