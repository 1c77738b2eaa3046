package bench

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Times are how long many things of one sort took. The zero Times is empty. It is safe for concurrent use.
type Times struct {
	mu  sync.Mutex // guards all
	all []time.Duration
}

// Add takes one.
func (t *Times) Add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, d)
}

// Spread sums them up.
func (t *Times) Spread() Spread {
	t.mu.Lock()
	sorted := slices.Sorted(slices.Values(t.all))
	t.mu.Unlock()
	if len(sorted) == 0 {
		return Spread{}
	}
	at := func(q float64) float64 { return milliseconds(sorted[int(math.Ceil(q*float64(len(sorted))))-1]) }
	return Spread{Count: len(sorted), P50: at(0.50), P95: at(0.95), P99: at(0.99), Max: at(1)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Spread is what matters of many times, in milliseconds. Its quantiles are exact: the least time that the given part of
// all did not exceed.
type Spread struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}
