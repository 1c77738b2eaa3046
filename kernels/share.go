package kernels

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"slipway/internal/errs"
	"slipway/kernels/wire"
)

// What one user's clients may take of the service's memory, however many they are and however slow.
const (
	bytesUp      = 128 << 20 // of messages that her clients have said and her kernels have not taken
	bytesDown    = 64 << 20  // of messages that her kernels have said and her clients have not taken
	bytesGiant   = 192 << 20 // likewise of giant ones, so that nothing else waits for them
	smallMessage = 32 << 10  // is not counted
	giantMessage = 8 << 20
	roomTime     = 30 * time.Second

	converted       = 1 << 20 // a message of this size is several times in memory while it is put into another framing
	convertedAtOnce = 2       // of those, of all users
)

var errNoRoom = errs.New(errs.OverQuota, "your kernels do not take what you send")

// share is a user's part of the service's memory.
type share struct{ up, down, giant *semaphore.Weighted }

func newShare() share {
	return share{semaphore.NewWeighted(bytesUp), semaphore.NewWeighted(bytesDown), semaphore.NewWeighted(bytesGiant)}
}

// makeRoom waits for room for bytes that a client says.
func (s share) makeRoom(ctx context.Context, n int64) error {
	if s.up.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, roomTime)
	defer cancel()
	if s.up.Acquire(ctx, n) != nil {
		return errNoRoom
	}
	return nil
}

// hold waits for room for a message of a kernel's, until free.
func (s share) hold(ctx context.Context, n int64) (free func(), err error) {
	of := s.down
	switch {
	case n <= smallMessage:
		return nothing, nil
	case n > giantMessage:
		of, n = s.giant, min(n, bytesGiant)
	}
	if err := of.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { of.Release(n) }, nil
}

func nothing() {}

// cost is how much room a message takes on its way to the client: in the old framing it is there twice.
func (c *client) cost(n int64) int64 {
	if _, old := c.codec.(wire.Legacy); old {
		return 2 * n
	}
	return n
}

// convert waits until a message of this size may be put into another framing, until free.
func (g *gateway) convert(ctx context.Context, n int64) (free func(), err error) {
	if n < converted {
		return nothing, nil
	}
	if err := g.converting.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { g.converting.Release(1) }, nil
}
