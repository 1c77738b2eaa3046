package nvml

import (
	"fmt"
	"math"
	"strings"
)

const mib = 1 << 20

// trimName makes the name that users know of the one that the library gives: "MIG 1g.18gb".
func trimName(s string) string { return strings.TrimPrefix(strings.TrimSpace(s), "MIG ") }

// composeName makes the name of a profile that the library has no name for, as nvidia-smi writes it. The memory in it
// is not what the instance has, but its share of the GPU's in eighths, rounded up, of the GPU's whole gigabytes.
func composeName(compute int, memory, total int64, attribute string) string {
	share := 1.0
	if total > 0 {
		share = math.Min(1, math.Ceil(float64(memory)/float64(total)*8)/8)
	}
	whole := math.Ceil(float64(total) / (1 << 30))
	return fmt.Sprintf("%dg.%dgb%s", compute, int(share*whole+0.5), attribute)
}
