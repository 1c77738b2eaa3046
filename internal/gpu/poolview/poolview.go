// Package poolview shows the GPUs of a batch system's pool to the API, beside the service's own, and names where what
// the pool says of these contradicts the service's records. It must not act on that: an administrator does.
package poolview

import (
	"context"
	"time"

	"slipway/hubapi"
	"slipway/internal/gpu"
	"slipway/spawner/htcondor/pool"
)

// View shows a pool. It is api.Pool.
type View struct {
	pool      *pool.Pool
	inventory func() gpu.Inventory // nil: the service has none
}

// New makes the View of a pool and of the service's own GPUs; nil: it has none.
func New(pool *pool.Pool, inventory func() gpu.Inventory) View { return View{pool, inventory} }

// GPUs is api.Pool's.
func (v View) GPUs(ctx context.Context, since time.Time) (hubapi.PoolGPUs, error) {
	c, err := v.pool.Catalogue(ctx)
	if err != nil {
		return hubapi.PoolGPUs{}, err
	}
	out := hubapi.PoolGPUs{
		Taken: c.Taken.UTC(), Machines: c.Machines, Kinds: wirePool(c.Kinds), Own: []hubapi.PoolOwn{},
		History: []hubapi.PoolHistory{},
	}
	if v.inventory != nil {
		out.Own = beside(v.inventory(), c.Free)
	}
	if since.IsZero() {
		return out, nil
	}
	for _, past := range v.pool.History(since) {
		out.History = append(out.History, hubapi.PoolHistory{Taken: past.Taken.UTC(), Kinds: wirePool(past.Kinds)})
	}
	return out, nil
}

// ClassAds is api.Pool's.
func (v View) ClassAds(ctx context.Context) (string, error) {
	c, err := v.pool.Catalogue(ctx)
	return c.ClassAds(), err
}

func wirePool(kinds []pool.GPUKind) []hubapi.PoolGPU {
	out := []hubapi.PoolGPU{}
	for _, k := range kinds {
		out = append(out, hubapi.PoolGPU{
			Site: k.Site, Model: k.Model, Sharing: k.Sharing, Capability: k.Capability, Memory: k.Memory,
			Driver: k.Driver, CUDA: k.CUDA, Runtimes: append([]string{}, k.Runtimes...),
			Total: k.Total, Free: k.Free, Used: k.Total - k.Free, Hosts: append([]string{}, k.Hosts...),
		})
	}
	return out
}

// What the pool says of a GPU of the service.
const (
	poolFree   = "free"
	poolUsed   = "used"
	poolAbsent = "absent"
)

// beside tells what the ledger and the pool say of the service's GPUs; nothing where the pool has none of them.
func beside(inv gpu.Inventory, free map[string]int) []hubapi.PoolOwn {
	own, offered := []hubapi.PoolOwn{}, false
	for _, g := range inv.GPUs {
		for _, o := range partsOf(g) {
			n, there := free[o.ID]
			switch {
			case !there:
				o.Pool = poolAbsent
			case n > 0:
				o.Pool = poolFree
			default:
				o.Pool = poolUsed
			}
			offered = offered || there
			o.Remark = contradiction(o.Ledger, o.Pool)
			own = append(own, o)
		}
	}
	if !offered {
		return []hubapi.PoolOwn{}
	}
	return own
}

// partsOf returns what a GPU is in a pool: itself, or its MIG instances.
func partsOf(g gpu.State) []hubapi.PoolOwn {
	var parts []hubapi.PoolOwn
	whole := hubapi.PoolOwn{ID: gpu.ShortUUID(g.Device.UUID), Model: g.Device.Name, Ledger: poolFree}
	for _, s := range g.Slices {
		switch {
		case g.Device.MIGEnabled && s.UUID != "":
			model := g.Device.Name + " MIG " + s.Slice.Profile
			parts = append(parts, hubapi.PoolOwn{ID: s.UUID, Model: model, Ledger: inLedger(g, s)})
		case !g.Device.MIGEnabled && inLedger(g, s) != poolFree:
			whole.Ledger = inLedger(g, s)
		}
	}
	if g.Device.MIGEnabled {
		return parts
	}
	if g.Condition != gpu.Ready {
		whole.Ledger = string(g.Condition)
	}
	return []hubapi.PoolOwn{whole}
}

// inLedger says what the service's own records have of a part of a GPU.
func inLedger(g gpu.State, s gpu.SliceState) string {
	switch {
	case s.Lent != "":
		return "lent"
	case s.Holder != "":
		return "held"
	case s.Quarantined != nil:
		return string(gpu.Drained)
	case s.Foreign:
		return string(gpu.Occupied)
	case g.Condition != gpu.Ready:
		return string(g.Condition)
	default:
		return poolFree
	}
}

// contradiction says what does not go together. Somebody else's use that the pool knows of is the pool's own.
func contradiction(ledger, pool string) string {
	switch {
	case pool == poolFree && (ledger == "held" || ledger == "lent"):
		return "the service has given it away, and the pool offers it too"
	case pool == poolFree && ledger != poolFree:
		return "the service does not give it out (" + ledger + "), and the pool offers it"
	case pool == poolUsed && ledger == poolFree:
		return "the pool has given it away, and the service offers it too"
	case pool == poolUsed && (ledger == "held" || ledger == "lent"):
		return "the service and the pool have both given it away"
	default:
		return ""
	}
}
