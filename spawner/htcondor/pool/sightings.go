package pool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"slipway/spawner/htcondor/classad"
)

// sighting is a kind of slot that the pool has had: what those that are alike offer when nothing runs there. Workers
// come and go in a pool of pilots, and what no worker of now could take is not what none ever will.
type sighting struct {
	kind  string    // what follows up to the GPUs, but the disk, as text
	Arch  string    `json:"arch"`
	OpSys string    `json:"opsys"`
	CPUs  float64   `json:"cpus"`
	MiB   float64   `json:"mib"`   // of memory
	KiB   float64   `json:"kib"`   // of disk
	Image bool      `json:"image"` // runs images
	GPUs  []seenGPU `json:"gpus,omitempty"`
	Slots int       `json:"-"`
}

// seenGPU is what of a GPU's ad is asked for.
type seenGPU struct {
	Model      string  `json:"model,omitempty"`
	UUID       string  `json:"uuid,omitempty"` // how it begins, which tells a MIG instance
	Capability float64 `json:"capability,omitempty"`
	MiB        float64 `json:"mib,omitempty"`
	Of         float64 `json:"of,omitempty"` // MiB of the card, of a part
	CUDA       float64 `json:"cuda,omitempty"`
	Driver     string  `json:"driver,omitempty"`
	Mode       string  `json:"mode,omitempty"`
}

// kindsOf returns the kinds of slots that there are, by their text.
func kindsOf(slots []slot) map[string]sighting {
	all := map[string]sighting{}
	for _, s := range slots {
		k := sightingOf(slot{s.empty()})
		k.Slots, k.KiB = all[k.kind].Slots+1, max(all[k.kind].KiB, k.KiB)
		all[k.kind] = k
	}
	return all
}

// sightingOf describes a slot. Memory, which differs a little from one worker to the next, is rounded, upwards: for too
// much a job is warned, for too little it is refused.
func sightingOf(s slot) sighting {
	number := func(a *classad.Ad, name string) float64 { n, _ := a.Number(name); return n }
	k := sighting{
		Arch: s.Text("Arch"), OpSys: s.Text("OpSys"), CPUs: number(s.Ad, "Cpus"),
		Image: s.Get("HasSingularity") == true,
		MiB:   roundUp(number(s.Ad, "Memory"), 1<<10), KiB: number(s.Ad, "Disk"),
	}
	for _, g := range s.available() {
		k.GPUs = append(k.GPUs, seenGPU{
			Model: g.Text("DeviceName"), UUID: g.Text("DeviceUuid")[:min(4, len(g.Text("DeviceUuid")))],
			Capability: number(g, "Capability"), MiB: number(g, "GlobalMemoryMb"),
			Of: number(g, "DeviceMemoryMb"), CUDA: number(g, "MaxSupportedVersion"), Driver: g.Text("NvidiaDriver"),
			Mode: g.Text("SlipwayMode"),
		})
	}
	return k.named()
}

func roundUp(n float64, to int64) float64 { return float64((int64(n) + to - 1) / to * to) }

// named returns k with the text of its kind.
func (k sighting) named() sighting {
	alike := k
	alike.KiB = 0
	text, err := json.Marshal(alike)
	if err != nil { // of numbers that an ad can have, none
		text = nil
	}
	k.kind = string(text)
	return k
}

// slot returns a slot of this kind, of which more is not known.
func (k sighting) slot() slot {
	a := classad.NewPart()
	gpus := make([]*classad.Ad, len(k.GPUs))
	for i, g := range k.GPUs {
		gpus[i] = g.ad()
	}
	for name, v := range map[string]classad.Value{
		"Arch": k.Arch, "OpSys": k.OpSys, "Cpus": k.CPUs, "Memory": k.MiB, "Disk": k.KiB, "HasSingularity": k.Image,
		"AvailableGPUs": asList(gpus),
	} {
		a.Set(name, v)
	}
	return slot{a}
}

func (g seenGPU) ad() *classad.Ad {
	a := classad.New()
	for name, text := range map[string]string{"DeviceName": g.Model, "DeviceUuid": g.UUID, "NvidiaDriver": g.Driver, "SlipwayMode": g.Mode} {
		if text != "" {
			a.Set(name, text)
		}
	}
	for name, n := range map[string]float64{"Capability": g.Capability, "GlobalMemoryMb": g.MiB, "DeviceMemoryMb": g.Of, "MaxSupportedVersion": g.CUDA} {
		if n > 0 {
			a.Set(name, n)
		}
	}
	return a
}

// seen is a kind of slot with the last time when there was one.
type seen struct {
	sighting
	Last  time.Time `json:"last"`
	Count int       `json:"count"` // of slots, then
}

// mostKinds is how many kinds are remembered, those that were seen last.
const mostKinds = 1000

// sightings are the kinds of slots that a pool has had within a time, in a file. They are safe for concurrent use.
type sightings struct {
	path string // empty: in memory alone
	keep time.Duration

	mu    sync.Mutex
	kinds map[string]seen
}

// openSightings reads a file. One that cannot be read as what it should be is begun anew: it holds nothing but hints.
func openSightings(path string, keep time.Duration) (*sightings, error) {
	m := &sightings{path: path, keep: keep, kinds: map[string]seen{}}
	if path == "" {
		return m, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	var all []seen
	if json.Unmarshal(b, &all) != nil {
		return m, nil
	}
	for _, s := range all {
		s.sighting = s.sighting.named()
		m.kinds[s.kind] = s
	}
	return m, nil
}

// add notes what slots there are, and saves it.
func (m *sightings) add(slots []slot, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, k := range kindsOf(slots) {
		k.KiB = max(k.KiB, m.kinds[kind].KiB)
		m.kinds[kind] = seen{k, now.UTC(), k.Slots}
	}
	all := m.latestLocked(now)
	clear(m.kinds)
	for _, s := range all {
		m.kinds[s.kind] = s
	}
	if m.path == "" {
		return nil
	}
	return writeAnew(m.path, func(e *json.Encoder) error { return e.Encode(all) })
}

// latestLocked returns what is not forgotten, the latest first.
func (m *sightings) latestLocked(now time.Time) []seen {
	var all []seen
	for _, s := range m.kinds {
		if now.Sub(s.Last) <= m.keep {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(x, y seen) int { return cmp.Or(y.Last.Compare(x.Last), cmp.Compare(x.kind, y.kind)) })
	return all[:min(len(all), mostKinds)]
}

// gone returns the kinds of slots of which none is among those of now, the latest first.
func (m *sightings) gone(slots []slot, now time.Time) []seen {
	there := kindsOf(slots)
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(m.latestLocked(now), func(s seen) bool { _, is := there[s.kind]; return is })
}

// earlier says what slots the pool has had, and has none like now, that could have taken what is asked for; empty:
// there was none.
func earlier(d Demand, past []seen, now time.Time) string {
	count, thing, last := 0, "worker", time.Time{}
	if !d.GPU.None() {
		thing = "GPU"
	}
	for _, s := range past {
		n := s.fitting(d)
		if n > 0 && (last.IsZero() || s.Last.Equal(last)) {
			count, last = count+n, s.Last
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf(
		"%s like it %s last seen %s ago", plural(count, thing), verb(count, "was", "were"), ago(now.Sub(last)),
	)
}

// fitting counts the slots of a kind that can take d, or their GPUs that it could have.
func (s seen) fitting(d Demand) int {
	was := s.slot()
	if explanation(d, []slot{was}).Fit == 0 {
		return 0
	}
	if d.GPU.None() {
		return s.Count
	}
	e, err := classad.Parse(cmp.Or(requireGPUs(d.GPU), "true"))
	if err != nil {
		return 0
	}
	n := 0
	for _, g := range was.available() {
		if classad.Evaluate(e, g, nil) == true {
			n++
		}
	}
	return n * s.Count
}

// ago says a time that has passed to people.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return plural(int(max(d, time.Second)/time.Second), "second")
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}
