package fakegpu

import (
	"slices"
	"strings"

	"slipway/internal/gpu"
)

// cut is a row of a model's table: a profile, the size of its placements and where they may start.
type cut struct {
	name    string
	id      int
	compute int
	mib     int64
	sms     int
	most    int
	size    int
	starts  []int
}

// model is a GPU as it is sold.
type model struct {
	word   string // as configuration names it
	slots  int
	idle   int64 // mW
	busy   int64 // mW
	device gpu.Device
	cuts   []cut
}

// Models returns the names that Model and Config.Models know.
func Models() []string {
	var words []string
	for _, m := range models() {
		words = append(words, m.word)
	}
	return words
}

// Model returns a GPU as its driver describes it, MIG off, without what tells one from another: index, UUID, bus. The
// name may be written in any case. Numbers and placements of profiles are those that real GPUs report; the memory of a
// profile is below its name, as on real ones, and exact to some percent.
func Model(name string) (gpu.Device, bool) {
	m, ok := find(name)
	return m.device, ok
}

func find(name string) (model, bool) {
	all := models()
	i := slices.IndexFunc(all, func(m model) bool { return strings.EqualFold(m.word, name) })
	if i < 0 {
		return model{}, false
	}
	m := all[i]
	m.device.Slots, m.device.ECC, m.device.MIGCapable = m.slots, true, m.slots > 0
	for _, c := range m.cuts {
		m.device.Profiles = append(m.device.Profiles, c.profile())
	}
	return m, true
}

func (c cut) profile() gpu.Profile {
	p := gpu.Profile{Name: c.name, ID: c.id, Compute: c.compute, Memory: c.mib << 20, SMs: c.sms, Max: c.most}
	for _, start := range c.starts {
		p.Placements = append(p.Placements, gpu.Placement{Start: start, Size: c.size})
	}
	return p
}

func models() []model {
	ampere := func(name string, mib int64, sms, clock int) gpu.Device {
		return gpu.Device{Name: name, Capability: "8.0", Memory: mib << 20, SMs: sms, ClockMHz: clock, MIGReset: true}
	}
	later := func(name, capability string, mib int64, sms, clock int) gpu.Device {
		return gpu.Device{Name: name, Capability: capability, Memory: mib << 20, SMs: sms, ClockMHz: clock, GPM: true}
	}
	a100, hopper, b200 := [6]int{14, 14, 28, 42, 56, 98}, [6]int{16, 26, 32, 60, 64, 132}, [6]int{18, 30, 36, 70, 72, 148}
	return []model{
		{"A30", 4, 30_000, 165_000, ampere("NVIDIA A30", 24576, 56, 1440), a30()},
		{"A100-40", 8, 52_000, 400_000, ampere("NVIDIA A100-SXM4-40GB", 40960, 108, 1410),
			eighths("5gb 10gb 20gb 40gb", [4]int64{4864, 9984, 20096, 40192}, a100)},
		{"A100-80", 8, 60_000, 400_000, ampere("NVIDIA A100-SXM4-80GB", 81920, 108, 1410),
			eighths("10gb 20gb 40gb 80gb", [4]int64{9728, 19968, 40192, 80640}, a100)},
		{"H100-80", 8, 70_000, 700_000, later("NVIDIA H100 80GB HBM3", "9.0", 81559, 132, 1980),
			eighths("10gb 20gb 40gb 80gb", [4]int64{9984, 20096, 40448, 81152}, hopper)},
		{"H100-NVL", 8, 60_000, 400_000, later("NVIDIA H100 NVL", "9.0", 95830, 132, 1785),
			eighths("12gb 24gb 47gb 94gb", [4]int64{11008, 22144, 47488, 95360}, hopper)},
		{"H200", 8, 75_000, 700_000, later("NVIDIA H200", "9.0", 143771, 132, 1980),
			eighths("18gb 35gb 71gb 141gb", [4]int64{16384, 33280, 71168, 143360}, hopper)},
		{"B200", 8, 140_000, 1_000_000, later("NVIDIA B200", "10.0", 183359, 148, 1965),
			eighths("23gb 45gb 90gb 180gb", [4]int64{22144, 44544, 91136, 182784}, b200)},
		{
			"RTX-PRO-6000", 12, 35_000, 600_000,
			later("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", 97887, 188, 2430), rtxPro6000(),
		},
		{
			"L40S", 0, 35_000, 350_000,
			gpu.Device{Name: "NVIDIA L40S", Capability: "8.9", Memory: 46068 << 20, SMs: 142, ClockMHz: 2520}, nil,
		},
	}
}

// eighths is the table of the GPUs with eight memory slots and seven compute slices: of one, two, four and eight slots
// the name and the MiB; and the processors of 1g, 1g with double memory, 2g, 3g, 4g and 7g.
func eighths(names string, mib [4]int64, sms [6]int) []cut {
	gb := strings.Fields(names)
	single := []int{0, 1, 2, 3, 4, 5, 6}
	return []cut{
		{"1g." + gb[0], 19, 1, mib[0], sms[0], 7, 1, single},
		{"1g." + gb[0] + "+me", 20, 1, mib[0], sms[0], 1, 1, single},
		{"1g." + gb[1], 15, 1, mib[1], sms[1], 4, 2, []int{0, 2, 4, 6}},
		{"2g." + gb[1], 14, 2, mib[1], sms[2], 3, 2, []int{0, 2, 4}},
		{"3g." + gb[2], 9, 3, mib[2], sms[3], 2, 4, []int{0, 4}},
		{"4g." + gb[2], 5, 4, mib[2], sms[4], 1, 4, []int{0}},
		{"7g." + gb[3], 0, 7, mib[3], sms[5], 1, 8, []int{0}},
	}
}

func a30() []cut {
	return []cut{
		{"1g.6gb", 14, 1, 5952, 14, 4, 1, []int{0, 1, 2, 3}},
		{"1g.6gb+me", 21, 1, 5952, 14, 1, 1, []int{0, 1, 2, 3}},
		{"2g.12gb", 5, 2, 11968, 28, 2, 2, []int{0, 2}},
		{"2g.12gb+me", 6, 2, 11968, 28, 1, 2, []int{0, 2}},
		{"4g.24gb", 0, 4, 24000, 56, 1, 4, []int{0}},
	}
}

// rtxPro6000 is the table with twelve slots. The kinds of a profile differ in media engines and graphics, not in place.
func rtxPro6000() []cut {
	quarter, half := []int{0, 3, 6, 9}, []int{0, 6}
	return []cut{
		{"1g.24gb", 14, 1, 24064, 46, 4, 3, quarter},
		{"1g.24gb+me", 21, 1, 24064, 46, 1, 3, quarter},
		{"1g.24gb+gfx", 47, 1, 24064, 46, 4, 3, quarter},
		{"1g.24gb+me.all", 65, 1, 24064, 46, 1, 3, quarter},
		{"1g.24gb-me", 67, 1, 24064, 46, 4, 3, quarter},
		{"2g.48gb", 5, 2, 48256, 94, 2, 6, half},
		{"2g.48gb+gfx", 35, 2, 48256, 94, 2, 6, half},
		{"2g.48gb+me.all", 64, 2, 48256, 94, 1, 6, half},
		{"2g.48gb-me", 66, 2, 48256, 94, 2, 6, half},
		{"4g.96gb", 0, 4, 96896, 188, 1, 12, []int{0}},
		{"4g.96gb+gfx", 32, 4, 96896, 188, 1, 12, []int{0}},
	}
}
