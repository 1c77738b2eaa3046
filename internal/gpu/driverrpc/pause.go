package driverrpc

import (
	"fmt"
	"time"
)

const (
	firstPause  = 500 * time.Millisecond
	longPause   = 30 * time.Second
	longService = time.Minute // a helper that served so long has not failed to start
)

// pause is the time between a helper's death and the start of the next one. It grows while they die soon.
type pause struct {
	length time.Duration
	until  time.Time
	why    error
}

// died notes a death, when it was, and how long the helper had served.
func (p *pause) died(at time.Time, why error, served time.Duration) {
	switch {
	case p.length == 0 || served >= longService:
		p.length = firstPause
	default:
		p.length = min(2*p.length, longPause)
	}
	p.until, p.why = at.Add(p.length), why
}

// holds says why no helper may be started yet; nil when one may.
func (p *pause) holds() error {
	if left := time.Until(p.until); left > 0 {
		return fmt.Errorf("the GPU helper is started again in %s: %w", left.Round(time.Millisecond), p.why)
	}
	return nil
}
