package datacheck

import (
	"context"

	"slipway/hubapi"
	"slipway/internal/errs"
)

const (
	tightRoom = 80 // percent
	noRoom    = 98

	noCount = "look again in some minutes, and tell your administrator if it stays so"
)

// room looks how full the user's directories are, as the service sees it.
func (d *doctor) room(ctx context.Context) []hubapi.DataCheck {
	if d.Room == nil {
		return nil
	}
	found, err := within(ctx, d.Room)
	if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Missing) {
		return nil // nobody counts there
	}
	if err != nil {
		return []hubapi.DataCheck{warn("room", "how full your directories are is not known: "+errs.Brief(err), noCount)}
	}
	var out []hubapi.DataCheck
	for _, q := range found.Quotas {
		check, said := "room in "+q.Path, hubapi.QuotaWords(q)
		switch {
		case q.Trouble != "":
			out = append(out, warn(check, said, noCount))
		case q.Percent >= noRoom:
			out = append(out, fail(check, said, "remove what you do not need: `slipway home usage` shows what is big; with a full home many programs fail without a word"))
		case q.Percent >= tightRoom:
			out = append(out, warn(check, said, "`slipway home usage` shows what is big"))
		default:
			out = append(out, good(check, "%s", said))
		}
	}
	return out
}
