package webui

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/units"
	"slipway/spawner"
)

// GPUsView is what the page of the GPUs is made of.
type GPUsView struct {
	Inventory gpu.Inventory
	// Workloads are those that the visitor may see, by ID. Of all others neither name nor number is shown.
	Workloads map[spawner.ID]spawner.Workload
}

// GPUsPage answers with what there is of GPUs, what of it is free, and who has it.
func GPUsPage(w http.ResponseWriter, v Visit, g GPUsView) error {
	inv := g.Inventory
	body := gpusBody{
		Problem: inv.Problem, Taken: inv.Taken, System: systemWords(inv.System), Simulated: inv.System.Simulated,
		Offers: offers(inv),
	}
	for _, s := range inv.GPUs {
		body.GPUs = append(body.GPUs, g.card(v, s))
	}
	return write(w, http.StatusOK, "gpus.html", frame{Title: "GPUs", Refresh: 30, Script: true, Visit: v, Body: body})
}

type gpusBody struct {
	Problem, System string
	Taken           time.Time
	Simulated       bool
	Offers          []offer
	GPUs            []gpuCard
}

func systemWords(s gpu.System) string {
	var words []string
	if s.Driver != "" {
		words = append(words, "Driver "+s.Driver)
	}
	if s.CUDA > 0 {
		words = append(words, fmt.Sprintf("CUDA up to %d.%d", s.CUDA/1000, s.CUDA%1000/10))
	}
	return strings.Join(words, ", ")
}

// offer is what can be asked for, of all GPUs together.
type offer struct {
	Name, Words, Apart string
	Free, Most         int
}

// offers sums up by name and isolation.
func offers(inv gpu.Inventory) (all []offer) {
	at := map[[2]string]int{}
	for _, g := range inv.GPUs {
		for _, o := range g.Offers {
			key := [2]string{o.Name, string(o.Tier)}
			i, known := at[key]
			if !known {
				i, at[key] = len(all), len(all)
				all = append(all, offer{Name: o.Name, Words: offerWords(o, inv), Apart: apartOf(g.Mode, o.Tier).Word})
			}
			all[i].Free += o.Free
			all[i].Most += o.Most
		}
	}
	return all
}

func offerWords(o gpu.Offer, inv gpu.Inventory) string {
	r, err := gpu.ParseRequest(o.Name)
	if err != nil {
		return ""
	}
	r.Least = o.Tier
	_, words, _ := strings.Cut(sliceWords(r, inv), ": ")
	return words
}

// gpuCard is one GPU.
type gpuCard struct {
	gpu.State
	Apart apart
	Bar   *bar // nil: nothing of it has a place
	Parts []part
}

func (g GPUsView) card(v Visit, s gpu.State) gpuCard {
	c := gpuCard{State: s, Apart: apartOf(s.Mode, s.Tier)}
	for i, p := range s.Slices {
		c.Parts = append(c.Parts, g.part(v, i+1, p))
	}
	c.Bar = barOf(s)
	return c
}

// Mode says what it is used for.
func (c gpuCard) Mode() string { return modeWords(c.State.Mode) }

// Condition says whether it may be leased from; its class is the word of the inventory.
func (c gpuCard) Condition() string {
	switch c.State.Condition {
	case gpu.Occupied:
		return "occupied by others"
	case gpu.Drained:
		return "drained: nothing new starts"
	case gpu.Gone:
		return "lost: it does not answer"
	case gpu.Unset:
		return "not set up"
	default:
		return string(c.State.Condition)
	}
}

// Load says how busy it is, as far as that is measured.
func (c gpuCard) Load() string {
	m := c.Reading
	if m == nil {
		return "not measured"
	}
	var words []string
	if m.Utilisation >= 0 {
		words = append(words, "busy for "+percent(m.Utilisation)+" of the time")
	}
	if m.MemoryUsed >= 0 {
		words = append(
			words, units.MemoryWords(m.MemoryUsed)+" of "+units.MemoryWords(c.Device.Memory)+" of memory used",
		)
	}
	if m.Power >= 0 {
		words = append(words, fmt.Sprintf("%d W", (m.Power+500)/1000))
	}
	if m.Temperature > 0 {
		words = append(words, fmt.Sprintf("%d °C", m.Temperature))
	}
	if len(words) == 0 {
		return "not measured"
	}
	return strings.Join(words, ", ")
}

// Free says what of it can be had now.
func (c gpuCard) Free() string {
	var words []string
	for _, o := range c.Offers {
		if o.Free > 0 {
			words = append(words, fmt.Sprintf("%d x %s", o.Free, o.Name))
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", or ")
}

// part is a slice of a GPU: held, cut out and free, somebody else's, or set aside.
type part struct {
	Number   int
	Name     string
	Place    string
	Key      string // of its state: held, lent, ready, foreign or quarantined
	Until    *time.Time
	Why      string
	Holder   *row // nil: nobody, or not the visitor's to know
	Borrower *row // likewise
	Since    time.Time
	Use      use
}

func (g GPUsView) part(v Visit, number int, s gpu.SliceState) part {
	p := part{
		Number: number, Name: s.Slice.Name, Place: placeWords(s.Slice.Placement), Key: stateKey(s),
		Until: s.Quarantined, Why: s.Why, Since: s.Since,
	}
	p.Use = use{s.Use, s.Slice.Memory}
	p.Holder, p.Borrower = g.known(v, s.Holder), g.known(v, s.Lent)
	if p.Holder == nil {
		p.Use.Hint = "" // it is for the holder
	}
	return p
}

// known returns a workload that the visitor may see.
func (g GPUsView) known(v Visit, id string) *row {
	w, ok := g.Workloads[spawner.ID(id)]
	if !ok || id == "" {
		return nil
	}
	return &row{Item: Item{Workload: w}, Visit: v}
}

// Taken reports whether somebody holds it.
func (p part) Taken() bool { return p.Key == "held" || p.Key == "lent" }

// State says in words what the bar shows.
func (p part) State() string { return stateWords(p.Key) }

func stateWords(key string) string {
	switch key {
	case "held":
		return "in use"
	case "lent":
		return "lent to a job"
	case "foreign":
		return "somebody else's"
	case "quarantined":
		return "set aside"
	default:
		return "cut out, free"
	}
}

func stateKey(s gpu.SliceState) string {
	switch {
	case s.Quarantined != nil:
		return "quarantined"
	case s.Foreign:
		return "foreign"
	case s.Lent != "":
		return "lent"
	case s.Holder != "":
		return "held"
	default:
		return "ready"
	}
}

// placeWords names the slots of the axis; empty when the GPU is not cut.
func placeWords(p gpu.Placement) string {
	switch {
	case p.Size == 0:
		return ""
	case p.Size == 1:
		return fmt.Sprintf("slot %d", p.Start)
	default:
		return fmt.Sprintf("slots %d-%d", p.Start, p.Start+p.Size-1)
	}
}
