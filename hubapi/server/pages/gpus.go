package pages

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/api"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/internal/webui"
	"slipway/spawner"
)

// gpusPage shows what there is of GPUs, and who has what of them as far as the visitor may see.
func (p *Pages) gpusPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	list, err := p.cfg.Workloads.List(r.Context(), v.caller)
	if err != nil {
		return err
	}
	seen := map[spawner.ID]spawner.Workload{}
	for _, found := range list {
		seen[found.ID] = found
	}
	return webui.GPUsPage(w, p.view(v), webui.GPUsView{Inventory: p.cfg.API.GPUs.InventoryFor(v.caller), Workloads: seen})
}

// poolPatience is how long a page waits for a pool that does not answer.
const poolPatience = 10 * time.Second

// poolSight is what pages have last seen of the pool's GPUs.
type poolSight struct {
	mu   sync.Mutex // guards last
	last *hubapi.PoolGPUs
}

// look asks the pool; where it does not answer, it gives what was seen last, and why.
func (p *poolSight) look(ctx context.Context, pool api.Pool) (seen *hubapi.PoolGPUs, err error) {
	ctx, cancel := context.WithTimeout(ctx, poolPatience)
	defer cancel()
	all, err := pool.GPUs(ctx, time.Time{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.last = &all
	}
	return p.last, err
}

// poolPage shows the GPUs of the pool, also while it does not answer: as they were seen last.
func (p *Pages) poolPage(w http.ResponseWriter, r *http.Request, v visitor) error {
	if p.cfg.Pool == nil {
		return api.NoPool()
	}
	view := webui.PoolView{}
	seen, err := p.sight.look(r.Context(), p.cfg.Pool)
	if seen != nil {
		view.PoolGPUs, view.Known = *seen, true
	}
	if err != nil {
		body := p.cfg.Web.InWords(r, inTime(err, "the pool", poolPatience))
		view.Problem = web.Sentence(body.Error.Message) + behind(" ", web.Sentence(body.Error.Remedy))
	}
	return webui.PoolPage(w, p.view(v), view)
}

// inTime says of an error that came of waiting too long what was waited for.
func inTime(err error, whom string, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errs.New(errs.Unavailable, "%s has not answered within %s", whom, limit).With("ask again in a moment")
	}
	return err
}

func behind(joint, words string) string {
	if words == "" {
		return ""
	}
	return joint + words
}
