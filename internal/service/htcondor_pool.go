package service

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/internal/config"
	"slipway/internal/gpu"
	"slipway/spawner/htcondor/commands"
	"slipway/spawner/htcondor/pool"
)

// newPool makes what knows the machines of the site's pool, with what it has had in files of a directory; nil: the site
// has none.
func newPool(cfg config.Config, records string, log *slog.Logger) (*pool.Pool, error) {
	if !cfg.HTCondor.Enabled {
		return nil, nil
	}
	return pool.New(pool.Config{
		Run: commands.In(cfg.HTCondor.Bin), Site: cfg.HTCondor.Domain, Elastic: cfg.HTCondor.Elastic, Logger: log,
		History: filepath.Join(records, "pool-gpus.jsonl"), Seen: filepath.Join(records, "pool-slots.json"),
	})
}

// poolView shows the pool's GPUs to the API, beside the service's own.
type poolView struct {
	pool      *pool.Pool
	inventory func() gpu.Inventory // nil: the service has none
}

// poolGPUs returns what the API shows of the pool; nil: there is none.
func poolGPUs(pool *pool.Pool, inventory func() gpu.Inventory) api.Pool {
	if pool == nil {
		return nil
	}
	return poolView{pool, inventory}
}

// GPUs is server.Pool's.
func (p poolView) GPUs(ctx context.Context, since time.Time) (hubapi.PoolGPUs, error) {
	c, err := p.pool.Catalogue(ctx)
	if err != nil {
		return hubapi.PoolGPUs{}, err
	}
	out := hubapi.PoolGPUs{Taken: c.Taken.UTC(), Machines: c.Machines, Kinds: wirePool(c.Kinds), Own: []hubapi.PoolOwn{}, History: []hubapi.PoolHistory{}}
	if p.inventory != nil {
		out.Own = beside(p.inventory(), c.Free)
	}
	if since.IsZero() {
		return out, nil
	}
	for _, past := range p.pool.History(since) {
		out.History = append(out.History, hubapi.PoolHistory{Taken: past.Taken.UTC(), Kinds: wirePool(past.Kinds)})
	}
	return out, nil
}

// ClassAds is server.Pool's.
func (p poolView) ClassAds(ctx context.Context) (string, error) {
	c, err := p.pool.Catalogue(ctx)
	return c.ClassAds(), err
}

func wirePool(kinds []pool.GPUKind) []hubapi.PoolGPU {
	out := []hubapi.PoolGPU{}
	for _, k := range kinds {
		out = append(out, hubapi.PoolGPU{
			Site: k.Site, Model: k.Model, Sharing: k.Sharing, Capability: k.Capability, Memory: k.Memory, Driver: k.Driver, CUDA: k.CUDA,
			Runtimes: append([]string{}, k.Runtimes...), Total: k.Total, Free: k.Free, Used: k.Total - k.Free, Hosts: append([]string{}, k.Hosts...),
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
			parts = append(parts, hubapi.PoolOwn{ID: s.UUID, Model: g.Device.Name + " MIG " + s.Slice.Profile, Ledger: inLedger(g, s)})
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
