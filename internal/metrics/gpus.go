package metrics

import (
	"cmp"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/internal/gpu"
)

// gpus collects what there is of GPUs when it is asked for. A GPU has its index and the beginning of its UUID as
// labels; slices are counted by profile, and have no label of their own. What was not measured is not shown.
type gpus struct {
	inventory func() gpu.Inventory

	up, info, condition, memory, free, slices, idle, lent, unmeasured, sliceSM, sliceMemory *prometheus.Desc
	utilisation, sm, used, temperature, power, energy, ecc                                  *prometheus.Desc
}

func newGPUs(inventory func() gpu.Inventory) *gpus {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("slipway_gpu_"+name, help, labels, nil)
	}
	one := func(name, help string, labels ...string) *prometheus.Desc {
		return desc(name, help, append([]string{"gpu", "index"}, labels...)...)
	}
	return &gpus{
		inventory: inventory,
		up: desc(
			"driver_up", "1 when the GPUs' driver could be asked; 0: the other numbers are of an earlier time.",
		),
		info:      one("info", "What a GPU is, and how it is shared out.", "model", "mode", "isolation", "simulated"),
		condition: one("condition", "1 for the condition that the GPU is in.", "condition"),
		memory:    one("memory_bytes", "Memory of the GPU."),

		free: one(
			"free", "How many of a profile could be had now, if nothing else is taken.", "mode", "profile",
		),
		slices: one(
			"slices", "Parts of the GPU by state: held, ready (there and free), quarantined, foreign.", "mode",
			"profile", "state",
		),
		idle: one("idle_slices", "Held slices that are known to be idle.", "mode", "profile"),
		lent: one("lent_slices", "Held slices that a job has borrowed.", "mode", "profile"),
		unmeasured: one(
			"unmeasured_slices", "Held slices of which nobody knows how busy they are.", "mode", "profile",
		),
		sliceSM: one(
			"slices_busy_ratio", "Mean use of the held slices that are measured, over a minute, by its source.", "mode",
			"profile", "source",
		),
		sliceMemory: one(
			"slices_memory_used_bytes", "Memory used in held slices, where it is known.", "mode", "profile",
		),

		utilisation: one("utilisation_ratio", "Share of the time in which any kernel ran."),
		sm:          one("sm_ratio", "Share of the processors that were busy."),
		used:        one("memory_used_bytes", "Memory used on the GPU."),
		temperature: one("temperature_celsius", "Temperature of the GPU."),
		power:       one("power_watts", "Power of the GPU."),
		energy:      one("energy_joules_total", "Energy that the GPU has used since its driver was loaded."),
		ecc:         one("uncorrected_ecc_errors", "Uncorrected memory errors since the driver was loaded."),
	}
}

// Describe names what there is.
func (g *gpus) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.up, g.info, g.condition, g.memory, g.free, g.slices, g.idle, g.lent, g.unmeasured, g.sliceSM, g.sliceMemory,
		g.utilisation, g.sm, g.used, g.temperature, g.power, g.energy, g.ecc,
	} {
		ch <- d
	}
}

// Collect looks at the inventory.
func (g *gpus) Collect(ch chan<- prometheus.Metric) {
	inv := g.inventory()
	ch <- prometheus.MustNewConstMetric(g.up, prometheus.GaugeValue, number(inv.Problem == ""))
	for _, s := range inv.GPUs {
		labels := []string{gpu.ShortUUID(s.Device.UUID), strconv.Itoa(s.Device.Index)}
		show := func(d *prometheus.Desc, v float64, more ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append(labels[:2:2], more...)...)
		}
		show(g.info, 1, s.Device.Name, string(s.Mode), string(s.Tier), strconv.FormatBool(inv.System.Simulated))
		for _, c := range []gpu.Condition{gpu.Ready, gpu.Occupied, gpu.Drained, gpu.Gone, gpu.Unset} {
			show(g.condition, number(s.Condition == c), string(c))
		}
		show(g.memory, float64(s.Device.Memory))
		g.collectSlices(s, show)
		g.collectReading(s, show)
		if s.Reading != nil && s.Reading.Energy >= 0 {
			ch <- prometheus.MustNewConstMetric(
				g.energy, prometheus.CounterValue, float64(s.Reading.Energy)/1000, labels...,
			)
		}
	}
}

// collectReading shows what the last reading has measured.
func (g *gpus) collectReading(s gpu.State, show func(*prometheus.Desc, float64, ...string)) {
	if s.Health != nil && s.Device.ECC && !s.Health.Lost {
		show(g.ecc, float64(s.Health.ECC))
	}
	r := s.Reading
	if r == nil {
		return
	}
	for _, v := range []struct {
		desc  *prometheus.Desc
		value float64
		per   float64
	}{
		{g.utilisation, r.Utilisation, 100}, {g.sm, r.SM, 100}, {g.used, float64(r.MemoryUsed), 1},
		{g.temperature, float64(r.Temperature), 1}, {g.power, float64(r.Power), 1000},
	} {
		if v.value >= 0 {
			show(v.desc, v.value/v.per)
		}
	}
}

// kind is what slices are counted by.
type kind struct{ profile, state string }

// sum is what held slices of one profile use.
type sum struct {
	idle, lent, unmeasured int
	busy                   map[gpu.Source][]float64 // percent
	memory                 int64
	known                  bool // memory is
}

// collectSlices counts the parts of a GPU.
func (g *gpus) collectSlices(s gpu.State, show func(*prometheus.Desc, float64, ...string)) {
	mode, free := string(s.Mode), map[string]int{}
	for _, o := range s.Offers {
		name := profile(s.Mode, o.Name)
		free[name] = max(free[name], o.Free)
	}
	for name, n := range free {
		show(g.free, float64(n), mode, name)
	}
	counts, sums := map[kind]int{}, map[string]*sum{}
	for _, part := range s.Slices {
		name, state := profile(s.Mode, cmp.Or(part.Slice.Profile, part.Slice.Name)), stateOf(part)
		counts[kind{name, state}]++
		if part.Holder == "" {
			continue
		}
		if sums[name] == nil {
			sums[name] = &sum{busy: map[gpu.Source][]float64{}}
		}
		sums[name].add(part)
	}
	for k, n := range counts {
		show(g.slices, float64(n), mode, k.profile, k.state)
	}
	for name, u := range sums {
		show(g.idle, float64(u.idle), mode, name)
		show(g.lent, float64(u.lent), mode, name)
		show(g.unmeasured, float64(u.unmeasured), mode, name)
		for source, values := range u.busy {
			show(g.sliceSM, mean(values)/100, mode, name, string(source))
		}
		if u.known {
			show(g.sliceMemory, float64(u.memory), mode, name)
		}
	}
}

func (u *sum) add(part gpu.SliceState) {
	if part.Lent != "" {
		u.lent++
	}
	if part.Use.Idle != nil {
		u.idle++
	}
	if part.Use.SM == nil {
		u.unmeasured++
	} else {
		u.busy[part.Use.Source] = append(u.busy[part.Use.Source], *part.Use.SM)
	}
	if part.Use.Memory != nil {
		u.memory, u.known = u.memory+*part.Use.Memory, true
	}
}

func stateOf(part gpu.SliceState) string {
	switch {
	case part.Quarantined != nil:
		return "quarantined"
	case part.Foreign:
		return "foreign"
	case part.Holder != "":
		return "held"
	default:
		return "ready"
	}
}

// profile is what a slice is counted under. Users choose the shares of MPS and of time slicing: these would be many
// labels.
func profile(m gpu.Mode, name string) string {
	if m != gpu.MIG {
		return string(m)
	}
	return name
}

func mean(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total / float64(len(values))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
