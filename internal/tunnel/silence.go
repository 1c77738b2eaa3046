package tunnel

import (
	"context"
	"time"

	"slipway/internal/clock"
)

// A network that was cut and has healed: TCP asks ever more rarely whether it has, and the multiplexer bears much, so
// that it would take minutes until either side sees that their connection is no more. An agent from whose link nothing
// comes for longer than from any sound one (the service asks every keepAlive) therefore tries another connection beside
// it until one comes about.
const (
	silentTick  = 5 * time.Second
	silentTicks = 12 // counted, and not the time that has gone by: who was paused has not listened
)

// hearing is a connection to another host, which says whether anything has come since it was asked last.
type hearing interface{ heard() bool }

// relief returns a new way to the service in place of one that has fallen silent, and ends the link that goes there;
// nil: live, which ends with that link, has ended before. A way that is being made by then is still given: it is
// because of it that the service drops the old one.
func (u *Uplink) relief(ctx, live context.Context, c hearing, end func()) *way {
	for silent := 0; clock.Sleep(live, u.tick); {
		if silent++; c.heard() {
			silent = 0
		}
		if silent < silentTicks {
			continue
		}
		next, err := u.connect(ctx)
		if err == nil {
			u.cfg.Logger.Info("the link to the service was silent; another is there")
			end()
			return next
		}
		u.cfg.Logger.Debug("the link to the service is silent", "error", err)
	}
	return nil
}
