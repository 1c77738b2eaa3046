//go:build cgo

package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/gpu/gputest"
)

func TestNoDriver(t *testing.T) {
	_, err := New(Config{Library: nvml.New(nvml.WithLibraryPath("/nowhere/libnvidia-ml.so.1")), Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, gpu.ErrNoDriver) || !errs.Is(err, errs.Missing) || !strings.Contains(err.Error(), "gpu.driver") {
		t.Errorf("without a library: %v", err)
	}
}

func TestDevices(t *testing.T) {
	r := newRig(t, 2)
	system, err := r.System(t.Context())
	if want := (gpu.System{Driver: "580.159.04", NVML: "13.580.159.04", CUDA: 13000}); err != nil || system != want {
		t.Errorf("system %+v, %v", system, err)
	}
	devices, err := r.Devices(t.Context())
	if err != nil || len(devices) != 2 {
		t.Fatalf("%d devices, %v", len(devices), err)
	}
	d := devices[1]
	var names []string
	for _, p := range d.Profiles {
		names = append(names, fmt.Sprintf("%s %d %d %d %v", p.Name, p.ID, p.SMs, p.Max, p.Placements))
	}
	want := []string{
		"1g.18gb 19 16 7 [{0 1} {1 1} {2 1} {3 1} {4 1} {5 1} {6 1}]",
		"2g.35gb 14 32 3 [{0 2} {2 2} {4 2}]",
		"3g.71gb 9 60 2 [{0 4} {4 4}]",
		"4g.71gb 5 64 1 [{0 4}]",
		"7g.141gb 0 132 1 [{0 8}]",
		"1g.18gb+me 20 16 1 [{0 1} {1 1} {2 1} {3 1} {4 1} {5 1} {6 1}]",
		"1g.35gb 15 26 4 [{0 2} {2 2} {4 2} {6 2}]",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	d.Profiles = nil
	if diff := cmp.Diff(gpu.Device{
		Index: 1, Minor: 1, UUID: r.cards[1].UUID, Name: "NVIDIA H200 141GB HBM3e", Bus: "00000000:02:00.0", Capability: "9.0",
		Memory: 143771 * mib, SMs: 132, ClockMHz: 1980, ECC: true, GPM: true, MIGCapable: true, Slots: 8,
	}, d); diff != "" {
		t.Error(diff)
	}
}

func TestOldLibrary(t *testing.T) {
	r := newRig(t, 1)
	r.lacks = append(r.lacks, "nvmlGpmQueryDeviceSupport", "nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryInfo_v2")
	r.cards[0].GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
	devices, err := r.Devices(t.Context())
	if err != nil || devices[0].GPM || devices[0].MIGCapable || devices[0].Profiles != nil {
		t.Errorf("%+v, %v", devices, err)
	}
	reading, err := r.Read(t.Context(), r.cards[0].UUID)
	if err != nil || reading.SM != -1 || reading.MemoryUsed != 0 {
		t.Errorf("%+v, %v", reading, err)
	}
	if err := r.LimitMemory(t.Context(), r.cards[0].UUID, "x", 1); !errors.Is(err, gpu.ErrNotSupported) {
		t.Error(err)
	}
	if found, err := r.Instances(t.Context(), r.cards[0].UUID); err != nil || found != nil {
		t.Error(found, err)
	}
}

// A library that never says that a profile is out of range.
func TestEndlessProfiles(t *testing.T) {
	r := newRig(t, 1)
	stock := r.cards[0].GetGpuInstanceProfileInfoFunc
	r.cards[0].GetGpuInstanceProfileInfoFunc = func(i int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
		info, ret := stock(i)
		if ret == nvml.ERROR_INVALID_ARGUMENT {
			ret = nvml.ERROR_NOT_SUPPORTED
		}
		return info, ret
	}
	if devices, err := r.Devices(t.Context()); err != nil || len(devices[0].Profiles) != 7 {
		t.Errorf("%+v, %v", devices, err)
	}
}

func TestCut(t *testing.T) {
	for _, talkative := range []bool{true, false} {
		r := newRig(t, 2)
		c := r.cards[1]
		c.talkative = talkative
		if _, err := r.CreateInstance(t.Context(), c.UUID, "1g.18gb", gpu.Placement{Start: 0, Size: 1}); !errors.Is(err, gpu.ErrNotSupported) {
			t.Errorf("with MIG off: %v", err)
		}
		if err := r.SetMIG(t.Context(), c.UUID, true); err != nil {
			t.Fatal(err)
		}
		made, err := r.CreateInstance(t.Context(), c.UUID, "3g.71gb", gpu.Placement{Start: 4, Size: 4})
		want := gpu.Instance{
			GPU: c.UUID, UUID: "MIG-1-1", GI: 1, Profile: "3g.71gb", Placement: gpu.Placement{Start: 4, Size: 4},
			Caps: []int{3 + 15*9 + 9, 3 + 15*9 + 10},
		}
		if diff := cmp.Diff(want, made); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if info, _ := c.gis[0].cis[0].GetInfo(); info.ProfileId != nvml.COMPUTE_INSTANCE_PROFILE_3_SLICE {
			t.Errorf("the compute instance has profile %d", info.ProfileId)
		}
		if found, err := r.Instances(t.Context(), c.UUID); err != nil || cmp.Diff([]gpu.Instance{want}, found) != "" {
			t.Errorf("%+v, %v", found, err)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	r := newRig(t, 1)
	c := r.cards[0]
	c.MigMode = 1
	at := gpu.Placement{Start: 0, Size: 4}
	if _, err := r.CreateInstance(t.Context(), c.UUID, "3g.71gb", at); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		profile string
		at      gpu.Placement
		want    error
	}{
		{"1g.18gb", gpu.Placement{Start: 3, Size: 1}, gpu.ErrNoRoom},       // taken
		{"3g.71gb", gpu.Placement{Start: 2, Size: 4}, gpu.ErrNoRoom},       // no such start
		{"1g.5gb", gpu.Placement{Start: 6, Size: 1}, gpu.ErrNotSupported},  // another GPU's
		{"1g.18gb", gpu.Placement{Start: -1, Size: 1}, gpu.ErrNoRoom},      // nonsense
		{"7g.141gb", gpu.Placement{Start: 0, Size: 8}, gpu.ErrNoRoom},      // half is taken
		{"1g.35gb", gpu.Placement{Start: 6, Size: 1 << 33}, gpu.ErrNoRoom}, // would wrap
	} {
		if _, err := r.CreateInstance(t.Context(), c.UUID, f.profile, f.at); !errors.Is(err, f.want) {
			t.Errorf("%s at %v: %v, want %v", f.profile, f.at, err, f.want)
		}
	}
	if _, err := r.CreateInstance(t.Context(), "GPU-nobody", "1g.18gb", at); !errors.Is(err, gpu.ErrNotFound) {
		t.Error(err)
	}
	if len(c.gis) != 1 {
		t.Errorf("%d instances are there", len(c.gis))
	}
}

func TestCreateTakesBack(t *testing.T) {
	r := newRig(t, 1)
	c := r.cards[0]
	c.MigMode, c.noCI = 1, true
	if _, err := r.CreateInstance(t.Context(), c.UUID, "1g.18gb", gpu.Placement{Start: 0, Size: 1}); err == nil || len(c.gis) != 0 {
		t.Errorf("%v, %d left", err, len(c.gis))
	}
	c.busy = 1 // now the way back fails as well
	_, err := r.CreateInstance(t.Context(), c.UUID, "1g.18gb", gpu.Placement{Start: 0, Size: 1})
	if !errors.Is(err, gpu.ErrInUse) {
		t.Error(err)
	}
	found, err := r.Instances(t.Context(), c.UUID)
	if err != nil || len(found) != 1 || found[0].CI != -1 || found[0].UUID != "" || len(found[0].Caps) != 1 {
		t.Errorf("the remnant is %+v, %v", found, err)
	}
	if err := r.DestroyInstance(t.Context(), c.UUID, found[0].GI); err != nil || len(c.gis) != 0 {
		t.Errorf("%v, %d left", err, len(c.gis))
	}
}

func TestDestroy(t *testing.T) {
	r := newRig(t, 1)
	c := r.cards[0]
	c.MigMode = 1
	made, err := r.CreateInstance(t.Context(), c.UUID, "2g.35gb", gpu.Placement{Start: 2, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	c.busy, c.remnants = 1, 1
	for _, what := range []string{"refused", "a remnant"} {
		if err := r.DestroyInstance(t.Context(), c.UUID, made.GI); !errors.Is(err, gpu.ErrInUse) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, what := range []string{"the third time", "what is gone"} {
		if err := r.DestroyInstance(t.Context(), c.UUID, made.GI); err != nil || len(c.gis) != 0 {
			t.Errorf("%s: %v, %d left", what, err, len(c.gis))
		}
	}
}

func TestSetMIG(t *testing.T) {
	for _, f := range []struct {
		name     string
		activate nvml.Return
		reset    bool
		want     error
	}{
		{"at once", nvml.SUCCESS, false, nil},
		{"after a reset, as the status says", nvml.ERROR_RESET_REQUIRED, false, gpu.ErrPending},
		{"after a reset, without a word", nvml.SUCCESS, true, gpu.ErrPending},
		{"somebody uses it", nvml.ERROR_IN_USE, false, gpu.ErrInUse},
	} {
		r := newRig(t, 1)
		c := r.cards[0]
		c.activate, c.reset = f.activate, f.reset
		if err := r.SetMIG(t.Context(), c.UUID, true); !errors.Is(err, f.want) {
			t.Errorf("%s: %v", f.name, err)
		}
		if calls := c.SetMigModeCalls(); f.want == gpu.ErrInUse && (len(calls) != 2 || calls[1].N != 0) {
			t.Errorf("%s: the wish is not taken back: %v", f.name, calls)
		}
	}
}

func TestModes(t *testing.T) {
	r := newRig(t, 1)
	c := r.cards[0]
	for _, on := range []bool{true, false} {
		if err := r.SetExclusive(t.Context(), c.UUID, on); err != nil {
			t.Error(err)
		}
	}
	if m := c.SetComputeModeCalls(); m[0].ComputeMode != nvml.COMPUTEMODE_EXCLUSIVE_PROCESS || m[1].ComputeMode != nvml.COMPUTEMODE_DEFAULT {
		t.Errorf("compute modes %v", m)
	}
	for _, bytes := range []int64{20 << 30, 1 << 50, 0} {
		if err := r.LimitMemory(t.Context(), c.UUID, "/slipway/x", bytes); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{
		"/sys/fs/cgroup/slipway/x 0 21474836480", "/sys/fs/cgroup/slipway/x 0 150754820096", "/sys/fs/cgroup/slipway/x 0 18446744073709551615",
	}, c.limits); diff != "" {
		t.Error(diff)
	}
	c.MigMode = 1
	if err := r.LimitMemory(t.Context(), c.UUID, "x", 1); !errors.Is(err, gpu.ErrNotSupported) {
		t.Error(err)
	}
}

func TestReadWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		c := r.cards[0]
		c.processes = []nvml.ProcessInfo{{Pid: 11, UsedGpuMemory: 5}, {Pid: 12, UsedGpuMemory: ^uint64(0)}}
		want := gpu.Reading{
			Utilisation: 40, SM: 10, MemoryUsed: 7 * mib, Energy: 1234, Power: 70000, Temperature: 33,
			Processes: []gpu.ProcessUse{{PID: 11, Memory: 5, GI: -1, CI: -1}, {PID: 12, Memory: -1, GI: -1, CI: -1}},
		}
		began := time.Now()
		got, err := r.Read(t.Context(), c.UUID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if took := time.Since(began); took < sampleLeast {
			t.Errorf("the two samples are %s apart", took)
		}
		time.Sleep(time.Second)
		now := uint64(time.Now().UnixMicro())
		c.use = []nvml.ProcessUtilizationSample{
			{Pid: 12, TimeStamp: now, SmUtil: 30}, {Pid: 12, TimeStamp: now - 1, SmUtil: 50}, {Pid: 12, TimeStamp: 1, SmUtil: 99}, {Pid: 11, TimeStamp: now, SmUtil: 4e9},
		}
		want.Processes[1].SM = 40
		began = time.Now()
		got, err = r.Read(t.Context(), c.UUID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("a later reading takes %s", took)
		}
		if calls := c.GetProcessUtilizationCalls(); calls[1].V != calls[0].V {
			t.Errorf("nothing was seen, and the next look is from %d, not %d", calls[1].V, calls[0].V)
		}
	})
}

func TestReadCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		c := r.cards[0]
		c.MigMode = 1
		for _, start := range []int{0, 2} {
			if _, err := r.CreateInstance(t.Context(), c.UUID, "1g.18gb", gpu.Placement{Start: start, Size: 1}); err != nil {
				t.Fatal(err)
			}
		}
		want := gpu.Reading{
			Utilisation: -1, SM: -1, MemoryUsed: 7 * mib, Energy: 1234, Power: 70000, Temperature: 33,
			Instances: map[int]gpu.InstanceUse{1: {SM: 11, MemoryUsed: mib}, 2: {SM: 12, MemoryUsed: 2 * mib}},
			Processes: []gpu.ProcessUse{{PID: 1001, Memory: 5, GI: 1, SM: -1}, {PID: 1002, Memory: 5, GI: 2, SM: -1}},
		}
		got, err := r.Read(t.Context(), c.UUID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if err := r.DestroyInstance(t.Context(), c.UUID, 1); err != nil {
			t.Fatal(err)
		}
		if _, kept := r.Driver.cards[c.UUID].meter.samples[1]; kept {
			t.Error("a sample of an instance that is gone is kept")
		}
		c.GpmMigSampleGetFunc = func(int, nvml.GpmSample) nvml.Return { return nvml.ERROR_NOT_SUPPORTED }
		if got, err = r.Read(t.Context(), c.UUID); err != nil || got.Instances[2].SM != -1 || len(got.Instances) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), sampleLeast/2)
		defer cancel()
		if _, err := r.Read(ctx, r.cards[0].UUID); err == nil {
			t.Error("a reading goes on after its deadline")
		}
	})
}

func TestHealth(t *testing.T) {
	r := newRig(t, 2)
	c := r.cards[0]
	event := func(xid uint64) nvml.EventData {
		return nvml.EventData{Device: c.Device, EventType: nvml.EventTypeXidCriticalError, EventData: xid}
	}
	r.queue = []nvml.EventData{event(48), event(79), event(31)} // the last is a program's fault
	c.ecc, c.pending = 2, true
	want := gpu.Health{Xid: 79, Xids: 2, ECC: 2, RowsPending: true, Temperature: 33}
	if got, err := r.Health(t.Context(), c.UUID); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := r.Health(t.Context(), r.cards[1].UUID); err != nil || got.Xid != 0 {
		t.Errorf("the other one: %+v, %v", got, err)
	}
	if _, err := r.Health(t.Context(), "GPU-nobody"); !errors.Is(err, gpu.ErrNotFound) {
		t.Error(err)
	}
}

func TestLost(t *testing.T) {
	r := newRig(t, 2)
	c := r.cards[0]
	c.lost = true
	for _, when := range []string{"at first sight", "once it is known"} {
		if got, err := r.Health(t.Context(), c.UUID); err != nil || !got.Lost || got.Reason == "" {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
		devices, err := r.Devices(t.Context())
		if err != nil || len(devices) != 1 || devices[0].UUID != r.cards[1].UUID {
			t.Errorf("%s: %+v, %v", when, devices, err)
		}
	}
	if _, err := r.Read(t.Context(), c.UUID); !errors.Is(err, gpu.ErrLost) {
		t.Error(err)
	}
	c.lost = false
	if got, err := r.Health(t.Context(), c.UUID); err != nil || got.Lost {
		t.Errorf("once it is back: %+v, %v", got, err)
	}
}

func TestFault(t *testing.T) {
	for ret, want := range map[nvml.Return]error{
		nvml.ERROR_NO_PERMISSION: gpu.ErrDenied, nvml.ERROR_IN_USE: gpu.ErrInUse, nvml.ERROR_GPU_IS_LOST: gpu.ErrLost,
		nvml.ERROR_NOT_SUPPORTED: gpu.ErrNotSupported, nvml.ERROR_FUNCTION_NOT_FOUND: gpu.ErrNotSupported,
		nvml.ERROR_INSUFFICIENT_RESOURCES: gpu.ErrNoRoom, nvml.ERROR_DRIVER_NOT_LOADED: gpu.ErrNoDriver,
	} {
		if err := fault(ret, "do %s", "it"); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "do it: ") {
			t.Errorf("%v: %v", ret, err)
		}
	}
	if err := fault(nvml.ERROR_LIB_RM_VERSION_MISMATCH, "x"); !strings.Contains(err.Error(), "reboot") {
		t.Error(err)
	}
	if err := fault(nvml.ERROR_UNKNOWN, "x"); err == nil || kindOf(nvml.ERROR_UNKNOWN) != nil {
		t.Error(err)
	}
}

func TestConformance(t *testing.T) {
	gputest.Run(t, func(t *testing.T) gpu.Driver {
		r := newRig(t, 2)
		r.cards[1].MigMode = 1
		return r.Driver
	})
}
