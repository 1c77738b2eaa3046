package webui

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"slipway/internal/gpu"
	"slipway/internal/units"
)

// apart says how what one holds of a GPU is kept apart from the neighbours'.
type apart struct {
	Word  string // one or a few words
	Short string // what one should know before choosing it; may be empty
	Long  string
}

// crash is the failure domain of MPS.
const crash = "A crash of one program ends all on that GPU."

// apartOf explains a tier of isolation in a mode.
func apartOf(mode gpu.Mode, tier gpu.Tier) apart {
	a := tiers()[tier]
	if mode == gpu.MPS && tier != gpu.Hardware {
		a.Short = crash
		a.Long += " All programs on the GPU share one fate: an error of one there, such as a read outside its memory, ends everybody's at once."
	}
	return a
}

func tiers() map[gpu.Tier]apart {
	return map[gpu.Tier]apart{
		gpu.Hardware: {
			Word: "hardware",
			Long: "The GPU itself keeps the processors and the memory apart. What others run can neither read yours, nor fill it up, nor crash it.",
		},
		gpu.Cgroup: {
			Word: "kernel, per container",
			Long: "The kernel's driver holds all programs of a session or job together to their share of the memory. The processors are shared with whoever else is on the GPU.",
		},
		gpu.Process: {
			Word: "per process",
			Long: "NVIDIA's MPS daemon holds each program to its share of the memory and of the processors, but each one by itself: two programs of yours may use twice as much.",
		},
		gpu.None: {
			Word:  "none",
			Short: "Others of your group are on the same GPU. Who uses too much memory is ended.",
			Long: "Programs take turns on the GPU, and nothing keeps their memory apart. So only members of one group, who trust one another, are put on it together. " +
				"A watchdog looks at the memory, and ends the programs of whoever uses more than was asked for.",
		},
	}
}

// modeWords says what a GPU is used for.
func modeWords(m gpu.Mode) string {
	switch m {
	case gpu.Whole:
		return "given away whole"
	case gpu.MIG:
		return "cut in hardware (MIG)"
	case gpu.MPS:
		return "used by several at once (MPS)"
	case gpu.Shared:
		return "used in turns (shared)"
	default:
		return "not used"
	}
}

// sliceWords says what a request gets of the GPUs that could serve it: "1g.18gb: 1/7 of an NVIDIA H200, 16 GiB of its
// memory".
func sliceWords(r gpu.Request, inv gpu.Inventory) string {
	var ways []string
	for _, g := range serving(r, inv) {
		if words := partWords(r, g.Device); words != "" && !slices.Contains(ways, words) {
			ways = append(ways, words)
		}
	}
	return r.String() + behind(": ", strings.Join(ways, ", or "))
}

// serving returns the GPUs that a request could be served from, if they were free.
func serving(r gpu.Request, inv gpu.Inventory) []gpu.State {
	return slices.DeleteFunc(slices.Clone(inv.GPUs), func(g gpu.State) bool {
		return g.Mode != r.Mode || !g.Tier.AtLeast(r.LeastTier()) ||
			!strings.Contains(strings.ToLower(g.Device.Name), strings.ToLower(r.Model))
	})
}

// partWords says what part of a device a request is; empty when the device has none such.
func partWords(r gpu.Request, d gpu.Device) string {
	switch r.Mode {
	case gpu.MIG:
		p, of, found := profileOf(d, r.Profile)
		if !found {
			return ""
		}
		part := fmt.Sprintf("%d/%d of ", p.Compute, of)
		if p.Compute == of {
			part = ""
		}
		return part + named(d) + ", " + units.MemoryWords(p.Memory) + " of its memory" + mediaWords(p.Name)
	case gpu.MPS:
		return fmt.Sprintf(
			"at most %d %% of the processors of %s, %s of its memory", r.Percent, named(d), units.MemoryWords(r.Memory),
		)
	case gpu.Shared:
		memory := "the memory shared too"
		if r.Memory > 0 {
			memory = "at most " + units.MemoryWords(r.Memory) + " of its memory"
		}
		return "turns on " + named(d) + ", " + memory
	default:
		return named(d) + " to yourself, " + units.MemoryWords(d.Memory) + " of memory"
	}
}

// mediaWords says which engines for media NVIDIA's name of a profile promises.
func mediaWords(profile string) string {
	switch _, more, _ := strings.Cut(profile, "+"); more {
	case "me":
		return ", with a media engine"
	case "me.all":
		return ", with all media engines"
	default:
		return ""
	}
}

// profileOf finds the profile that a request names, and of how many compute slices the device consists.
func profileOf(d gpu.Device, name string) (best gpu.Profile, of int, found bool) {
	for _, p := range d.Profiles {
		of = max(of, p.Compute)
		fits := p.Name == name || !strings.ContainsAny(name, ".+-") && strings.HasPrefix(p.Name, name+".") &&
			!strings.ContainsAny(p.Name, "+-")
		if fits && (!found || p.Memory < best.Memory) {
			best, found = p, true
		}
	}
	return best, of, found
}

// named puts the article before a device's name. NVIDIA is spoken with a vowel first.
func named(d gpu.Device) string {
	if strings.HasPrefix(d.Name, "NVIDIA") {
		return "an " + d.Name
	}
	return "a " + d.Name
}

// tierOf is the weakest isolation that a request is served with.
func tierOf(r gpu.Request, inv gpu.Inventory) gpu.Tier {
	able := serving(r, inv)
	if len(able) == 0 {
		return r.LeastTier()
	}
	weakest := gpu.Hardware
	for _, g := range able {
		if !g.Tier.AtLeast(weakest) {
			weakest = g.Tier
		}
	}
	return weakest
}

// use is how much of what is held of a GPU is used, in words. What is not measured is said to be so.
type use struct {
	gpu.Use
	Held int64 // bytes
}

// Seen reports whether anything was measured.
func (u use) Seen() bool { return u.SM != nil || u.Memory != nil || u.Peak != nil }

// Busy says how much of the processors is used, and how that is known.
func (u use) Busy() string {
	if u.SM == nil {
		return "not measured" + behind(": ", u.Unknown)
	}
	switch busy := percent(*u.SM); u.Source {
	case gpu.SourceGPM:
		return busy + " busy in the last minute, by the processors' own counters"
	case gpu.SourceProcess:
		return "in use by its programs for " + busy + " of the last minute"
	default:
		return "in use for " + busy + " of the last minute"
	}
}

// Filled says how much of the memory is used.
func (u use) Filled() string {
	if u.Memory == nil && u.Peak == nil {
		return "not measured" + behind(": ", u.Unknown)
	}
	var words []string
	if u.Memory != nil {
		words = append(words, units.MemoryWords(*u.Memory)+" now")
	}
	if u.Peak != nil {
		words = append(words, "at most "+units.MemoryWords(*u.Peak)+" so far")
	}
	if u.Held > 0 {
		words = append(words, "of "+units.MemoryWords(u.Held))
	}
	return strings.Join(words, ", ")
}

// Now is the part of the memory that is used, in percent; negative when that is not known.
func (u use) Now() float64 { return partOf(u.Memory, u.Held) }

// Most is the greatest part that was, likewise.
func (u use) Most() float64 { return partOf(u.Peak, u.Held) }

func partOf(n *int64, held int64) float64 {
	if n == nil || held <= 0 {
		return -1
	}
	return math.Round(min(100, 100*float64(*n)/float64(held))*10) / 10
}

// Spent says the energy; empty when it is not known.
func (u use) Spent() string {
	if u.Energy == nil {
		return ""
	}
	switch wh := *u.Energy / 3600; {
	case wh < 10:
		return fmt.Sprintf("about %.1f Wh", wh)
	case wh < 1000:
		return fmt.Sprintf("about %.0f Wh", wh)
	default:
		return fmt.Sprintf("about %.1f kWh", wh/1000)
	}
}

// percent says a share as finely as it means something.
func percent(p float64) string {
	if p > 0 && p < 1 {
		return "less than 1 %"
	}
	return fmt.Sprintf("%.0f %%", p)
}

// times says how often something happened.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
