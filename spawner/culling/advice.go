package culling

import (
	"fmt"
	"time"

	"slipway/spawner"
)

// Advice says to who is warned of a stop what becomes of her work, and what she can do.
func Advice(p spawner.PlannedStop, k spawner.Kind) string {
	keep := ""
	if p.CanKeep {
		keep = " To keep it: slipway keep " + keepFor(p)
	}
	switch {
	case !k.Ephemeral():
		return "Your changes are kept." + keep
	case p.Idle:
		return "What it has in memory will be lost. To keep it, run any cell"
	default:
		return "What it has in memory will be lost: write what you need to a file now"
	}
}

// keepFor proposes how long to keep a session.
func keepFor(p spawner.PlannedStop) string {
	return fmt.Sprintf("%gh", min(p.MaxKeep, 4*time.Hour).Hours())
}
