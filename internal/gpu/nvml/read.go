//go:build cgo

package nvml

import (
	"context"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"slipway/internal/gpu"
)

// Read measures a GPU. The first reading of one that has counters takes a tenth of a second.
func (d *Driver) Read(ctx context.Context, uuid string) (gpu.Reading, error) {
	c, h, err := d.card(ctx, uuid)
	if err != nil {
		return gpu.Reading{}, err
	}
	c.meter.reading.Lock()
	defer c.meter.reading.Unlock()
	on, err := cut(c, h)
	if err != nil {
		return gpu.Reading{}, err
	}
	r, err := d.readWhole(c, h)
	switch {
	case err != nil:
		return r, err
	case on:
		return d.readCut(ctx, c, h, r)
	}
	if use, ret := h.GetUtilizationRates(); ret == nvml.SUCCESS {
		r.Utilisation = float64(use.Gpu)
	}
	if r.Processes, err = d.processes(c, h); err != nil {
		return r, err
	}
	busy, err := d.processors(ctx, c, h, []int{wholeGPU})
	if v, ok := busy[wholeGPU]; ok {
		r.SM = v
	}
	return r, err
}

// readWhole reads what only the GPU as a whole can tell, cut or not.
func (d *Driver) readWhole(c *card, h nvml.Device) (gpu.Reading, error) {
	r := gpu.Reading{
		Utilisation: -1, SM: -1, MemoryUsed: -1, Energy: -1, Power: -1, Temperature: -1, Processes: []gpu.ProcessUse{},
	}
	used, ret := d.memory(h)
	if kindOf(ret) == gpu.ErrLost {
		return r, fault(ret, "read GPU %s", c.uuid)
	}
	if ret == nvml.SUCCESS {
		r.MemoryUsed = used
	}
	if v, ret := h.GetTotalEnergyConsumption(); ret == nvml.SUCCESS {
		r.Energy = int64(v)
	}
	if v, ret := h.GetPowerUsage(); ret == nvml.SUCCESS {
		r.Power = int64(v)
	}
	if v, ret := h.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		r.Temperature = int(v)
	}
	return r, nil
}

// memory returns the bytes in use; the older of the two functions counts what the driver keeps for itself as well.
func (d *Driver) memory(h nvml.Device) (int64, nvml.Return) {
	if d.has("nvmlDeviceGetMemoryInfo_v2") {
		if m, ret := h.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			return int64(m.Used), ret
		}
	}
	m, ret := h.GetMemoryInfo()
	return int64(m.Used), ret
}

// readCut adds the instances. NVML has no utilisation for a GPU that is cut, nor for its processes.
func (d *Driver) readCut(ctx context.Context, c *card, h nvml.Device, r gpu.Reading) (gpu.Reading, error) {
	parts, err := d.parts(c, h)
	if err != nil {
		return r, err
	}
	r.Instances = map[int]gpu.InstanceUse{}
	var gis []int
	for _, p := range parts {
		use, met := r.Instances[p.GI]
		if !met {
			gis = append(gis, p.GI)
			use = gpu.InstanceUse{SM: -1, MemoryUsed: -1}
		}
		if p.mig != nil {
			if used, ret := d.memory(p.mig); ret == nvml.SUCCESS {
				use.MemoryUsed = used // compute instances share their GPU instance's
			}
			some, err := contexts(c, p.mig)
			if err != nil {
				return r, err
			}
			for _, u := range some {
				u.GI, u.CI = p.GI, p.CI
				r.Processes = append(r.Processes, u)
			}
		}
		r.Instances[p.GI] = use
	}
	busy, err := d.processors(ctx, c, h, gis)
	for gi, v := range busy {
		use := r.Instances[gi]
		use.SM = v
		r.Instances[gi] = use
	}
	return r, err
}

// processes returns the processes of a GPU that is not cut, with their use of the processors since the last look.
func (d *Driver) processes(c *card, h nvml.Device) ([]gpu.ProcessUse, error) {
	found, err := contexts(c, h)
	if err != nil {
		return nil, err
	}
	if c.meter.since == 0 {
		c.meter.since = uint64(time.Now().Add(-time.Second).UnixMicro())
	}
	samples, ret := h.GetProcessUtilization(c.meter.since)
	switch ret {
	case nvml.SUCCESS, nvml.ERROR_INSUFFICIENT_SIZE:
	case nvml.ERROR_NOT_FOUND: // none was busy
		samples = nil
	default:
		return found, nil
	}
	busy, latest := average(samples, c.meter.since)
	c.meter.since = latest
	for i, p := range found {
		found[i].SM = busy[p.PID]
	}
	return found, nil
}

// average returns the mean use of each process after a moment, and the moment of the latest sample. The library also
// gives older samples, and such as are no percentage.
func average(samples []nvml.ProcessUtilizationSample, after uint64) (busy map[int]int, latest uint64) {
	busy, latest = map[int]int{}, after
	counts := map[int]int{}
	for _, s := range samples {
		if s.TimeStamp <= after || s.SmUtil > 100 {
			continue
		}
		latest = max(latest, s.TimeStamp)
		counts[int(s.Pid)]++
		busy[int(s.Pid)] += int(s.SmUtil)
	}
	for pid, n := range counts {
		busy[pid] /= n
	}
	return busy, latest
}

// contexts returns the processes that have a context on a GPU or on a MIG device, each once.
func contexts(c *card, h nvml.Device) ([]gpu.ProcessUse, error) {
	infos, ret := h.GetComputeRunningProcesses()
	if err := fault(ret, "list the processes on GPU %s", c.uuid); err != nil {
		return nil, err
	}
	for _, more := range []func() ([]nvml.ProcessInfo, nvml.Return){h.GetMPSComputeRunningProcesses, h.GetGraphicsRunningProcesses} {
		if some, ret := more(); ret == nvml.SUCCESS {
			infos = append(infos, some...)
		}
	}
	found, at := []gpu.ProcessUse{}, map[int]int{}
	for _, p := range infos {
		memory := int64(-1)
		if p.UsedGpuMemory != unknown {
			memory = int64(p.UsedGpuMemory)
		}
		if i, met := at[int(p.Pid)]; met {
			found[i].Memory = max(found[i].Memory, memory)
			continue
		}
		at[int(p.Pid)] = len(found)
		found = append(found, gpu.ProcessUse{PID: int(p.Pid), Memory: memory, GI: -1, CI: -1, SM: -1})
	}
	return found, nil
}

// unknown stands for a number that the library does not know.
const unknown = ^uint64(0)
