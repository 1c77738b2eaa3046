package blobstore

import (
	"math/rand/v2"
	"time"
)

const (
	firstWait = 5 * time.Second
	longest   = 30 * time.Minute
)

// Patience says how long to wait before something is tried again: twice as long after each failure, with some chance in
// it so that what failed together does not come back together.
type Patience struct{ failed int }

// After returns the time to wait after err; of a success it is usual.
func (p *Patience) After(err error, usual time.Duration) time.Duration {
	if err == nil {
		p.failed = 0
		return usual
	}
	wait := min(longest, firstWait<<min(p.failed, 10))
	p.failed++
	return wait/2 + rand.N(wait/2)
}
