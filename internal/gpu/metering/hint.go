package metering

import (
	"fmt"
	"strings"
	"time"

	"slipway/internal/gpu"
)

const (
	hintAfter = time.Hour       // of measured use; at the end of a lease:
	hintEnd   = 5 * time.Minute // so much is enough
)

// Enough says which smaller slice would have held peak bytes with a fifth to spare; empty: none is worth a word.
func Enough(d gpu.Device, s gpu.Slice, peak int64) string {
	if peak <= 0 {
		return ""
	}
	need := peak + peak/5
	used := fmt.Sprintf("held %s, used at most %s: ", gigs(s.Memory), gigs(peak))
	if s.Mode == gpu.MPS || s.Mode == gpu.Shared {
		if round := roundUp(need); s.Memory > 0 && smaller(round, s.Memory) {
			return used + gigs(round) + " would do"
		}
		return ""
	}
	if p, found := smallest(d.Profiles, need); found && smaller(p.Memory, s.Memory) {
		return used + p.Name + " would do"
	}
	return ""
}

// smaller reports whether less is enough of a step down from held to speak of: a quarter.
func smaller(less, held int64) bool { return less <= held/4*3 }

// smallest finds the smallest profile with that much memory; of two alike the one with fewer processors. Those with
// media engines and the like are for who asks for them.
func smallest(profiles []gpu.Profile, need int64) (best gpu.Profile, found bool) {
	for _, p := range profiles {
		if p.Memory < need || strings.ContainsAny(p.Name, "+-") {
			continue
		}
		if !found || p.Memory < best.Memory || p.Memory == best.Memory && p.Compute < best.Compute {
			best, found = p, true
		}
	}
	return best, found
}

func roundUp(n int64) int64 { return (n + 1<<30 - 1) >> 30 << 30 }

// gigs writes a size as people speak of it: "9G", "512M".
func gigs(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%dM", (n+1<<19)>>20)
	}
	return fmt.Sprintf("%dG", (n+1<<29)>>30)
}
