package hubapi

import (
	"context"
	"net/http"
	"time"
)

// PoolGPUs is what GPUs an HTCondor pool has by its own ads, and, where the service's GPUs are offered there too, what
// each says of them.
type PoolGPUs struct {
	Taken    time.Time     `json:"taken"`
	Machines int           `json:"machines"` // also those without GPUs
	Kinds    []PoolGPU     `json:"kinds"`
	Own      []PoolOwn     `json:"own"`     // the service's GPUs
	History  []PoolHistory `json:"history"` // the oldest first; empty unless asked for
}

// PoolGPU is GPUs of one kind at one site. What the ads do not tell is empty or 0.
type PoolGPU struct {
	Site       string   `json:"site"`
	Model      string   `json:"model"`
	Sharing    string   `json:"sharing"` // whole, mig, or part: one of several that nothing in hardware keeps apart
	Capability string   `json:"capability"`
	Memory     int64    `json:"memory"` // bytes
	Driver     string   `json:"driver"`
	CUDA       string   `json:"cuda"`     // the newest that the driver serves
	Runtimes   []string `json:"runtimes"` // of CUDA, that it serves
	Total      int      `json:"total"`
	Free       int      `json:"free"`
	Used       int      `json:"used"`
	Hosts      []string `json:"hosts"`
}

// PoolOwn is one of the service's GPUs, or a part of one, as the service and the pool have it.
type PoolOwn struct {
	ID     string `json:"id"` // as the pool names it
	Model  string `json:"model"`
	Ledger string `json:"ledger"` // free, held, lent, or the GPU's condition when it may not be used
	Pool   string `json:"pool"`   // free, used, or absent
	Remark string `json:"remark"` // what does not go together; empty: nothing
}

// PoolHistory is what a scan of the pool found. Its kinds name no hosts and no runtimes.
type PoolHistory struct {
	Taken time.Time `json:"taken"`
	Kinds []PoolGPU `json:"kinds"`
}

// PoolGPUs lists the GPUs of the site's HTCondor pool. A positive span asks for its history too, as far back.
func (c *Client) PoolGPUs(ctx context.Context, span time.Duration) (PoolGPUs, error) {
	return fetch[PoolGPUs](ctx, c, http.MethodGet, query("/gpus/pool", "history", spanWord(span)), nil)
}

// PoolClassAds returns the same as ClassAds, one for each kind.
func (c *Client) PoolClassAds(ctx context.Context) (string, error) {
	return c.text(ctx, query("/gpus/pool", "format", "classad"))
}

func spanWord(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return d.String()
}
