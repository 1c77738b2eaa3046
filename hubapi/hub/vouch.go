package hub

import (
	"context"
	"sync"
	"time"

	"slipway/internal/errs"
)

// vouching remembers for a while whether the Hub knows the service's own token.
type vouching struct {
	mu    sync.Mutex
	asked time.Time
	err   error
}

// canVouch tells a token that the Hub does not know from a Hub that knows nobody: JupyterHub answers 403 also when it
// cannot write to its database, as on a full disk, because it fails to note when the token was used. Then it does not
// know this service's own token either. Nil: it does, or there is none to ask with.
func (c *Client) canVouch(ctx context.Context) error {
	if c.token.Empty() {
		return nil
	}
	v := &c.vouching
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.asked.IsZero() && time.Since(v.asked) < negativeAge {
		return v.err
	}
	_, err := c.ownerOf(ctx, c.token)
	if errs.Is(err, errs.Unauthorized) {
		err = errs.New(errs.Unavailable, "the Hub cannot answer now: it does not know this service either").
			With("try again later; the administrator looks at the Hub's log, whether its disk is full, and at token_file of this hub")
	}
	v.err, v.asked = err, time.Now()
	return err
}
