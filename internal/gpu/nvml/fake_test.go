//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// table is what a real H200 says of a profile; the stock mock has other numbers, and does not enforce placements.
type table struct {
	id, sms, max, size int
	memory             int // MiB
	starts             []int
}

// hopper is in the order of the library's enumeration.
func hopper() map[int]table {
	return map[int]table{
		nvml.GPU_INSTANCE_PROFILE_1_SLICE:      {19, 16, 7, 1, 16384, []int{0, 1, 2, 3, 4, 5, 6}},
		nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: {20, 16, 1, 1, 16384, []int{0, 1, 2, 3, 4, 5, 6}},
		nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2: {15, 26, 4, 2, 33280, []int{6, 4, 2, 0}},
		nvml.GPU_INSTANCE_PROFILE_2_SLICE:      {14, 32, 3, 2, 33280, []int{0, 2, 4}},
		nvml.GPU_INSTANCE_PROFILE_3_SLICE:      {9, 60, 2, 4, 71424, []int{0, 4}},
		nvml.GPU_INSTANCE_PROFILE_4_SLICE:      {5, 64, 1, 4, 71424, []int{0}},
		nvml.GPU_INSTANCE_PROFILE_7_SLICE:      {0, 132, 1, 8, 142848, []int{0}},
	}
}

// rig is the stock mock, made to behave: a driver over it, and what tests turn.
type rig struct {
	*Driver
	server *server.Server
	cards  []*fakeCard
	lacks  []string // functions that the library does not know
	queue  []nvml.EventData
}

// fakeCard is one GPU of a rig.
type fakeCard struct {
	*server.Device
	mu        sync.Mutex
	lost      bool
	gis       []*fakeGI
	next      uint32
	remnants  int // destructions that report success and leave the instance
	busy      int // destructions that are refused
	noCI      bool
	talkative bool // compute instances tell their MIG device
	processes []nvml.ProcessInfo
	use       []nvml.ProcessUtilizationSample
	activate  nvml.Return
	reset     bool // MIG mode changes after a reset only
	limits    []string
	ecc       uint64
	pending   bool
}

type fakeGI struct {
	*server.GpuInstance
	card *fakeCard
	cis  []*mock.ComputeInstance
	mig  *mock.Device
}

func newRig(t *testing.T, n int) *rig {
	t.Helper()
	r := &rig{server: server.NewServerWithGPUs("580.159.04", "13.580.159.04", 13000, slices.Repeat([]gpus.Config{gpus.H200_SXM5_141GB}, n)...)}
	r.lacks = []string{"nvmlDeviceGetGpuInstanceProfileInfoV"} // the mock cannot give what the function returns
	r.server.LookupSymbolFunc = func(name string) error {
		if slices.Contains(r.lacks, name) {
			return errors.New("no such symbol")
		}
		return nil
	}
	for i, d := range r.server.Devices {
		c := &fakeCard{Device: d.(*server.Device), talkative: true}
		c.UUID = fmt.Sprintf("GPU-1000000%d-0000-0000-0000-000000000000", i)
		r.cards = append(r.cards, c)
		c.facts()
		c.cutting()
		c.counters()
	}
	r.server.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if r.cards[i].lost {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return r.cards[i].Device, nvml.SUCCESS
	}
	r.listening()
	r.gpm()
	file := filepath.Join(t.TempDir(), "mig-minors")
	if err := os.WriteFile(file, []byte(minorsOf(n)), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := New(Config{Library: r.server, Minors: file, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.Driver = d
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// minorsOf writes a file as the kernel module does.
func minorsOf(gpus int) string {
	var b strings.Builder
	b.WriteString("config 1\nmonitor 2\n")
	n := 3
	for g := range gpus {
		for gi := range 15 {
			fmt.Fprintf(&b, "gpu%d/gi%d/access %d\n", g, gi, n)
			n++
			for ci := range 8 {
				fmt.Fprintf(&b, "gpu%d/gi%d/ci%d/access %d\n", g, gi, ci, n)
				n++
			}
		}
	}
	return b.String()
}

func (c *fakeCard) facts() {
	c.IsMigDeviceHandleFunc = func() (bool, nvml.Return) { return false, nvml.SUCCESS }
	c.GetNumGpuCoresFunc = func() (int, nvml.Return) { return 132 * 128, nvml.SUCCESS }
	c.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1980, nvml.SUCCESS }
	c.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	c.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		var p nvml.PciInfo
		for i, b := range fmt.Sprintf("00000000:0%d:00.0", c.Index+1) {
			p.BusId[i] = int8(b)
		}
		return p, nvml.SUCCESS
	}
	c.MemoryInfo.Total = 143771 * mib // the stock one has more than the instances' names go with
	memory := c.GetMemoryInfoFunc
	c.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		if c.lost {
			return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST
		}
		return memory()
	}
	c.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{Used: 7 * mib}, nvml.SUCCESS }
	c.SetComputeModeFunc = func(nvml.ComputeMode) nvml.Return { return nvml.SUCCESS }
	c.SetMemoryLimits_v1Func = func(group string, soft, hard uint64) nvml.Return {
		c.limits = append(c.limits, fmt.Sprintf("%s %d %d", group, soft, hard))
		return nvml.SUCCESS
	}
	c.SetMigModeFunc = func(mode int) (nvml.Return, nvml.Return) {
		if c.activate == nvml.SUCCESS && !c.reset {
			c.MigMode = mode
		}
		return c.activate, nvml.SUCCESS
	}
}

// cutting makes placements and order matter.
func (c *fakeCard) cutting() {
	stock := c.GetGpuInstanceProfileInfoFunc
	c.GetGpuInstanceProfileInfoFunc = func(i int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
		info, ret := stock(i)
		if t, ok := hopper()[i]; ok && ret == nvml.SUCCESS {
			info.Id, info.MultiprocessorCount, info.InstanceCount = uint32(t.id), uint32(t.sms), uint32(t.max)
			info.MemorySizeMB = uint64(t.memory)
		}
		return info, ret
	}
	c.GetGpuInstancePossiblePlacementsFunc = func(info *nvml.GpuInstanceProfileInfo) (at []nvml.GpuInstancePlacement, ret nvml.Return) {
		for _, t := range hopper() {
			for _, start := range t.starts {
				if t.id == int(info.Id) {
					at = append(at, nvml.GpuInstancePlacement{Start: uint32(start), Size: uint32(t.size)})
				}
			}
		}
		return at, nvml.SUCCESS
	}
	c.CreateGpuInstanceWithPlacementFunc = c.create
	c.GetGpuInstancesFunc = func(info *nvml.GpuInstanceProfileInfo) (found []nvml.GpuInstance, ret nvml.Return) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, gi := range c.gis {
			if gi.Info.ProfileId == info.Id {
				found = append(found, gi)
			}
		}
		return found, nvml.SUCCESS
	}
	c.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	c.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i >= len(c.gis) {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return c.gis[i].mig, nvml.SUCCESS
	}
}

func (c *fakeCard) create(info *nvml.GpuInstanceProfileInfo, at *nvml.GpuInstancePlacement) (nvml.GpuInstance, nvml.Return) {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := uint32(1)
	for _, gi := range c.gis {
		if gi.Info.ProfileId == info.Id {
			same++
		}
		if o := gi.Info.Placement; at.Start < o.Start+o.Size && o.Start < at.Start+at.Size {
			return nil, nvml.ERROR_INSUFFICIENT_RESOURCES
		}
	}
	if same > info.InstanceCount {
		return nil, nvml.ERROR_INSUFFICIENT_RESOURCES
	}
	c.next++
	gi := &fakeGI{card: c, GpuInstance: server.NewGpuInstanceFromInfo(
		nvml.GpuInstanceInfo{Device: c.Device, Id: c.next, ProfileId: info.Id, Placement: *at}, c.Config.MIGProfiles)}
	gi.mig = c.migDevice(c.next)
	gi.GetComputeInstanceProfileInfoFunc = func(i, _ int) (nvml.ComputeInstanceProfileInfo, nvml.Return) {
		if i >= nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
			return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_INVALID_ARGUMENT
		}
		slices := map[int]uint32{0: 1, 1: 2, 2: 3, 3: 4, 4: 7}[i]
		if slices == 0 || slices > info.SliceCount {
			return nvml.ComputeInstanceProfileInfo{}, nvml.ERROR_NOT_SUPPORTED
		}
		return nvml.ComputeInstanceProfileInfo{Id: uint32(i), SliceCount: slices}, nvml.SUCCESS
	}
	gi.CreateComputeInstanceFunc = gi.fill
	gi.GetComputeInstancesFunc = func(p *nvml.ComputeInstanceProfileInfo) (found []nvml.ComputeInstance, ret nvml.Return) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, ci := range gi.cis {
			if i, _ := ci.GetInfo(); i.ProfileId == p.Id {
				found = append(found, ci)
			}
		}
		return found, nvml.SUCCESS
	}
	gi.DestroyFunc = gi.destroy
	c.gis = append(c.gis, gi)
	return gi, nvml.SUCCESS
}

func (g *fakeGI) fill(p *nvml.ComputeInstanceProfileInfo) (nvml.ComputeInstance, nvml.Return) {
	if g.card.noCI {
		return nil, nvml.ERROR_UNKNOWN
	}
	info := nvml.ComputeInstanceInfo{Device: g.card.Device, ProfileId: p.Id}
	if g.card.talkative {
		info.Device = g.mig
	}
	ci := &mock.ComputeInstance{GetInfoFunc: func() (nvml.ComputeInstanceInfo, nvml.Return) { return info, nvml.SUCCESS }}
	ci.DestroyFunc = func() nvml.Return {
		g.card.mu.Lock()
		defer g.card.mu.Unlock()
		g.cis = slices.DeleteFunc(g.cis, func(o *mock.ComputeInstance) bool { return o == ci })
		return nvml.SUCCESS
	}
	g.card.mu.Lock()
	defer g.card.mu.Unlock()
	g.cis = append(g.cis, ci)
	return ci, nvml.SUCCESS
}

func (g *fakeGI) destroy() nvml.Return {
	c := g.card
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(g.cis) > 0:
		return nvml.ERROR_IN_USE
	case c.busy > 0:
		c.busy--
		return nvml.ERROR_IN_USE
	case c.remnants > 0:
		c.remnants--
		return nvml.SUCCESS
	}
	c.gis = slices.DeleteFunc(c.gis, func(o *fakeGI) bool { return o == g })
	return nvml.SUCCESS
}

func (c *fakeCard) migDevice(gi uint32) *mock.Device {
	m := &mock.Device{
		IsMigDeviceHandleFunc:    func() (bool, nvml.Return) { return true, nvml.SUCCESS },
		GetUUIDFunc:              func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d-%d", c.Index, gi), nvml.SUCCESS },
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return int(gi), nvml.SUCCESS },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, nvml.SUCCESS },
		GetMemoryInfo_v2Func:     func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{Used: uint64(gi) * mib}, nvml.SUCCESS },
	}
	m.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 1000 + gi, UsedGpuMemory: 5}}, nvml.SUCCESS
	}
	m.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	m.GetGraphicsRunningProcessesFunc = m.GetMPSComputeRunningProcessesFunc
	return m
}

// counters are what is measured.
func (c *fakeCard) counters() {
	c.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 1234, nvml.SUCCESS }
	c.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 70000, nvml.SUCCESS }
	c.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 33, nvml.SUCCESS }
	c.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 40}, nvml.SUCCESS }
	c.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return c.processes, nvml.SUCCESS }
	c.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return c.processes, nvml.SUCCESS }
	c.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	c.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		if c.use == nil {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return c.use, nvml.SUCCESS
	}
	c.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return c.ecc, nvml.SUCCESS }
	c.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 0, c.pending, false, nvml.SUCCESS }
	c.GpmQueryDeviceSupportFunc = func() (nvml.GpmSupport, nvml.Return) { return nvml.GpmSupport{IsSupportedDevice: 1}, nvml.SUCCESS }
	c.GpmSampleGetFunc = func(nvml.GpmSample) nvml.Return { return nvml.SUCCESS }
	c.GpmMigSampleGetFunc = func(gi int, s nvml.GpmSample) nvml.Return {
		s.(*fakeSample).gi = gi
		return nvml.SUCCESS
	}
}

// fakeSample counts how often it is freed.
type fakeSample struct {
	mock.GpmSample
	gi    int
	freed bool
}

func (s *fakeSample) Free() nvml.Return {
	if s.freed {
		panic("a sample is freed twice")
	}
	s.freed = true
	return nvml.SUCCESS
}

// gpm gives 10 percent for the whole GPU, and 10 + n for instance n.
func (r *rig) gpm() {
	r.server.GpmSampleAllocFunc = func() (nvml.GpmSample, nvml.Return) { return &fakeSample{}, nvml.SUCCESS }
	r.server.GpmMetricsGetFunc = func(g *nvml.GpmMetricsGetType) nvml.Return {
		first, second := g.Sample1.(*fakeSample), g.Sample2.(*fakeSample)
		if first.gi != second.gi || first.freed || second.freed || g.Metrics[0].MetricId != uint32(nvml.GPM_METRIC_SM_UTIL) {
			return nvml.ERROR_INVALID_ARGUMENT
		}
		g.Metrics[0].Value = 10 + float64(first.gi)
		return nvml.SUCCESS
	}
}

// listening queues the rig's events.
func (r *rig) listening() {
	for _, c := range r.cards {
		c.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	}
	r.server.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{
			FreeFunc: func() nvml.Return { return nvml.SUCCESS },
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				if len(r.queue) == 0 {
					return nvml.EventData{}, nvml.ERROR_TIMEOUT
				}
				e := r.queue[0]
				r.queue = r.queue[1:]
				return e, nvml.SUCCESS
			},
		}, nvml.SUCCESS
	}
}
