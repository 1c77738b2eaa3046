//go:build cgo

package nvml

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Two samples of the processors' counters tell what was between them. Closer ones tell nothing, and a very old one is
// of no interest.
const (
	sampleLeast = 100 * time.Millisecond
	sampleMost  = 10 * time.Minute
)

// wholeGPU stands for the GPU itself among its instances.
const wholeGPU = -1

// meter remembers the last look at a GPU, since the counters tell only differences.
type meter struct {
	reading sync.Mutex // held by the one who reads
	mu      sync.Mutex
	samples map[int]sample // by GPU instance
	since   uint64         // µs: processes have been looked at
}

type sample struct {
	at   time.Time
	data nvml.GpmSample
}

// swap puts a newer sample in the place of the older one, or takes it away, and gives the older one.
func (m *meter) swap(gi int, s sample) sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.samples[gi]
	if s.data == nil {
		delete(m.samples, gi)
		return old
	}
	if m.samples == nil {
		m.samples = map[int]sample{}
	}
	m.samples[gi] = s
	return old
}

// drop forgets what is known of one instance.
func (m *meter) drop(gi int) {
	if old := m.swap(gi, sample{}); old.data != nil {
		_ = old.data.Free()
	}
}

// forget forgets all.
func (m *meter) forget() {
	m.mu.Lock()
	known := slices.Collect(maps.Keys(m.samples))
	m.mu.Unlock()
	for _, gi := range known {
		m.drop(gi)
	}
}

// keepOnly forgets the instances that are gone.
func (m *meter) keepOnly(gis []int) {
	m.mu.Lock()
	known := slices.Collect(maps.Keys(m.samples))
	m.mu.Unlock()
	for _, gi := range known {
		if !slices.Contains(gis, gi) {
			m.drop(gi)
		}
	}
}

// last says when the latest sample was taken of those that begin a measurement; zero when none is needed.
func (m *meter) last(gis []int) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	var at time.Time
	for _, gi := range gis {
		if s := m.samples[gi]; s.at.After(at) {
			at = s.at
		}
	}
	return at
}

// measures reports whether the GPU has counters that can be asked.
func (d *Driver) measures(h nvml.Device) bool {
	if !d.has("nvmlGpmQueryDeviceSupport") {
		return false
	}
	support, ret := h.GpmQueryDeviceSupport()
	return ret == nvml.SUCCESS && support.IsSupportedDevice != 0
}

// processors returns the percentage of processors that were busy since the last reading, of the GPU or of its
// instances: those that cannot be measured are missing. The first reading begins with a sample of its own and takes a
// tenth of a second.
func (d *Driver) processors(ctx context.Context, c *card, h nvml.Device, gis []int) (map[int]float64, error) {
	busy := map[int]float64{}
	c.meter.keepOnly(gis)
	if !d.measures(h) {
		return busy, nil
	}
	for _, gi := range gis {
		d.begin(c, h, gi)
	}
	if err := wait(ctx, time.Until(c.meter.last(gis).Add(sampleLeast))); err != nil {
		return nil, err
	}
	for _, gi := range gis {
		if v, ok := d.end(c, h, gi); ok {
			busy[gi] = v
		}
	}
	return busy, nil
}

// begin takes the first sample, unless the last reading has left one.
func (d *Driver) begin(c *card, h nvml.Device, gi int) {
	if at := c.meter.last([]int{gi}); !at.IsZero() && time.Since(at) < sampleMost {
		return
	}
	c.meter.drop(gi)
	if data := d.take(h, gi); data != nil {
		c.meter.swap(gi, sample{time.Now(), data})
	}
}

// end takes the second sample, which is the first one of the next reading.
func (d *Driver) end(c *card, h nvml.Device, gi int) (float64, bool) {
	data := d.take(h, gi)
	if data == nil {
		c.meter.drop(gi)
		return 0, false
	}
	old := c.meter.swap(gi, sample{time.Now(), data})
	if old.data == nil {
		return 0, false
	}
	defer old.data.Free()
	get := nvml.GpmMetricsGetType{NumMetrics: 1, Sample1: old.data, Sample2: data}
	get.Metrics[0].MetricId = uint32(nvml.GPM_METRIC_SM_UTIL)
	ret := d.lib.GpmMetricsGet(&get)
	m := get.Metrics[0]
	if ret != nvml.SUCCESS || nvml.Return(m.NvmlReturn) != nvml.SUCCESS || math.IsNaN(m.Value) ||
		math.IsInf(m.Value, 0) {
		return 0, false
	}
	return m.Value, true
}

// take takes a sample, nil when the GPU does not give one.
func (d *Driver) take(h nvml.Device, gi int) nvml.GpmSample {
	data, ret := d.lib.GpmSampleAlloc()
	if ret != nvml.SUCCESS {
		return nil
	}
	if gi == wholeGPU {
		ret = h.GpmSampleGet(data)
	} else {
		ret = h.GpmMigSampleGet(gi, data)
	}
	if ret != nvml.SUCCESS {
		_ = data.Free()
		return nil
	}
	return data
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
