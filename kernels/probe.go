package kernels

import (
	"context"
	"errors"
	"time"

	"slipway/internal/clock"
)

// soonest is how much time lies between two questions to a client whether it has what was written to it: so long that
// lies with the agent, and would come once more if the client came again.
const soonest = 5 * time.Millisecond

// look asks whether the client is there: from time to time, and when something was written to it. At once then, for
// JupyterLab comes again as soon as it reads that its kernel restarts, and a browser answers a ping before its page
// reads what came with it. What was written before it answers it surely has.
func (c *client) look(ctx context.Context) {
	defer c.looks.Reset(c.Ping)
	if !clock.Sleep(ctx, time.Until(c.looked.Add(soonest))) {
		return
	}
	c.looked = time.Now()
	c.outbox.rest()
	way := c.way.Load()
	written := way.last()
	switch err := c.ask(ctx); {
	case err == nil:
		way.acknowledge(written)
	case !errors.Is(err, errBusy):
		c.gone()
		return
	}
	if c.outbox.overdue(way) {
		c.worry()
	}
}

// errBusy is of a client that has not answered, as the question or the answer may stand behind what is being said.
var errBusy = errors.New("it may have had no time to answer")

func (c *client) ask(ctx context.Context) error {
	heard := c.intake.bytes.Load()
	wait, cancel := context.WithTimeout(ctx, c.Ping)
	defer cancel()
	err := c.ws.Ping(wait)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && (c.writing.Load() || c.intake.waiting.Load() || c.intake.bytes.Load() > heard) {
		return errBusy
	}
	return err
}
