package api

import (
	"fmt"
	"net/http"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// GPUHandlers serve what there is of GPUs on this host and in the pool, and what workloads use of them.
type GPUHandlers struct {
	lookup
	inventory func() gpu.Inventory
	used      func(holder string) []hubapi.GPUPoint
	publish   func(format string) (string, error)
	keeper    GPUKeeper
	pool      Pool
}

// gpus lists the GPUs: as JSON, or in a form for matchmaking.
func (s *GPUHandlers) listGPUs(w http.ResponseWriter, r *http.Request) error {
	if format := r.URL.Query().Get("format"); format != "" {
		if s.publish == nil {
			return errs.New(errs.Missing, "this service has no GPUs").
				With("the administrator sets gpu.driver in the configuration")
		}
		text, err := s.publish(format)
		if err != nil {
			return err
		}
		web.AsText(w)
		_, err = fmt.Fprint(w, text)
		return err
	}
	web.WriteJSON(w, http.StatusOK, s.wireGPUs(r, s.InventoryFor(web.CallerOf(r.Context()))))
	return nil
}

// InventoryFor returns what a caller may read of the inventory. Whose parts are is decided where it is shown.
func (s *GPUHandlers) InventoryFor(c spawner.Caller) gpu.Inventory {
	if Administers(c) {
		return s.Inventory()
	}
	return s.Inventory().Public()
}

// Inventory returns what there is of GPUs; a service without any has an empty one.
func (s *GPUHandlers) Inventory() gpu.Inventory {
	if s.inventory == nil {
		return gpu.Inventory{Taken: time.Now()}
	}
	return s.inventory()
}

func (s *GPUHandlers) wireGPUs(r *http.Request, inv gpu.Inventory) hubapi.GPUs {
	out := hubapi.GPUs{
		Driver: inv.System.Driver, Simulated: inv.System.Simulated, Problem: inv.Problem, Taken: inv.Taken.UTC(),
		Offers: []hubapi.GPUOffer{}, GPUs: []hubapi.GPU{},
	}
	if cuda := inv.System.CUDA; cuda > 0 {
		out.CUDA = fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10)
	}
	at := map[hubapi.GPUOffer]int{} // by name and isolation
	for _, g := range inv.GPUs {
		out.GPUs = append(out.GPUs, s.wireGPU(r, g))
		for _, o := range g.Offers {
			key := hubapi.GPUOffer{Name: o.Name, Isolation: string(o.Tier)}
			i, known := at[key]
			if !known {
				i = len(out.Offers)
				at[key], out.Offers = i, append(out.Offers, key)
			}
			out.Offers[i].Free += o.Free
			out.Offers[i].Most += o.Most
		}
	}
	return out
}

func (s *GPUHandlers) wireGPU(r *http.Request, g gpu.State) hubapi.GPU {
	d := g.Device
	out := hubapi.GPU{
		Index: d.Index, UUID: d.UUID, Model: d.Name, Mode: string(g.Mode), Isolation: string(g.Tier),
		Condition: string(g.Condition), Why: g.Why,
		Memory: d.Memory, Offers: []hubapi.GPUOffer{}, Slices: []hubapi.GPUSlice{},
	}
	for _, o := range g.Offers {
		out.Offers = append(
			out.Offers, hubapi.GPUOffer{Name: o.Name, Free: o.Free, Most: o.Most, Isolation: string(o.Tier)},
		)
	}
	for _, slice := range g.Slices {
		out.Slices = append(out.Slices, s.wireSlice(r, slice))
	}
	if m := g.Reading; m != nil {
		out.MemoryUsed, out.Utilisation = measured(m.MemoryUsed), measured(m.Utilisation)
		out.Temperature = measured(m.Temperature)
		if p := measured(m.Power); p != nil {
			watts := float64(*p) / 1000
			out.Power = &watts
		}
	}
	return out
}

// measured returns a number of a reading; nil where it could not be measured.
func measured[T int | int64 | float64](v T) *T {
	if v < 0 {
		return nil
	}
	return &v
}

// wireSlice shows a part of a GPU; whose it is, to its owner and to administrators alone.
func (s *GPUHandlers) wireSlice(r *http.Request, p gpu.SliceState) hubapi.GPUSlice {
	out := hubapi.GPUSlice{
		Name: p.Slice.Name, Memory: p.Slice.Memory, State: sliceState(p), Since: convert.Moment(p.Since),
		Until: p.Quarantined, Why: p.Why, Use: convert.GPUUse(p.Use),
	}
	if at := p.Slice.Placement; at.Size > 0 {
		out.Place = fmt.Sprintf("%d-%d", at.Start, at.Start+at.Size-1)
	}
	if p.Holder == "" {
		return out
	}
	if w, err := s.workloads.Get(r.Context(), web.CallerOf(r.Context()), spawner.ID(p.Holder)); err == nil {
		out.User, out.Workload = string(w.Owner), p.Holder
	} else {
		out.Use.Hint = "" // it is for the holder
	}
	if w, err := s.workloads.Get(r.Context(), web.CallerOf(r.Context()), spawner.ID(p.Lent)); err == nil && p.Lent != "" {
		out.Borrower = string(w.ID)
	}
	return out
}

func sliceState(p gpu.SliceState) string {
	switch {
	case p.Quarantined != nil:
		return "quarantined"
	case p.Foreign:
		return "foreign"
	case p.Lent != "":
		return "lent"
	case p.Holder != "":
		return "held"
	default:
		return "ready"
	}
}

// Lent returns the sessions whose slices are lent to jobs now. A page asks once for all that it lists.
func (s *GPUHandlers) Lent() map[spawner.ID]bool {
	all := map[spawner.ID]bool{}
	for _, g := range s.Inventory().GPUs {
		for _, p := range g.Slices {
			if p.Lent != "" {
				all[spawner.ID(p.Holder)] = true
			}
		}
	}
	return all
}

func (s *GPUHandlers) sessionGPU(r *http.Request, _ web.None) (hubapi.GPUSeries, error) {
	w, err := s.Find(r, false)
	return s.series(w), err
}

func (s *GPUHandlers) jobGPU(r *http.Request, _ web.None) (hubapi.GPUSeries, error) {
	w, err := s.Find(r, true)
	return s.series(w), err
}

// series returns how much of its slice a workload has used over time, for a while also after its end.
func (s *GPUHandlers) series(w spawner.Workload) hubapi.GPUSeries {
	out := hubapi.GPUSeries{Points: []hubapi.GPUPoint{}}
	if s.used != nil && w.ID != "" {
		out.Points = append(out.Points, s.used(string(w.ID))...)
	}
	return out
}
