package engine

import "slipway/spawner"

// advice says to who is warned of a stop what becomes of her work, and what she can do.
func (p Prospect) advice(k spawner.Kind) string {
	keep := ""
	if p.CanKeep {
		keep = " To keep it: slipway keep " + p.keepFor()
	}
	switch {
	case k != spawner.Kernel:
		return "Your changes are kept." + keep
	case p.Idle:
		return "What it has in memory will be lost. To keep it, run any cell"
	default:
		return "What it has in memory will be lost: write what you need to a file now"
	}
}
