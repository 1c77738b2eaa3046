package webui

import (
	"fmt"

	"slipway/internal/gpu"
	"slipway/internal/units"
)

// SliceLine says in a line what it holds or asks for of a GPU; empty: nothing.
func (r row) SliceLine() string {
	switch {
	case r.Slice != nil && r.Lender != "":
		return r.Slice.String() + ", borrowed"
	case r.Slice != nil && r.Lent:
		return r.Slice.String() + ", lent out"
	case r.Slice != nil:
		return r.Slice.String()
	case r.Spec.GPU.None() || !r.Phase.Active():
		return ""
	default:
		return "asks for " + r.Spec.GPU.String()
	}
}

// Asks is what it asks for of a GPU while it holds nothing; empty: nothing.
func (r row) Asks() string {
	if r.Slice != nil || r.Spec.GPU.None() {
		return ""
	}
	return r.Spec.GPU.String()
}

// Held is what it holds of a GPU; nil: nothing.
func (r row) Held() *held {
	if r.Slice == nil {
		return nil
	}
	return &held{Slice: *r.Slice, Use: use{r.Use, r.Slice.Memory}, Apart: apartOf(r.Slice.Mode, r.Slice.Tier)}
}

// Requeued says how often it went back in line; empty: never.
func (r row) Requeued() string {
	if r.Moves == 0 {
		return ""
	}
	return times(r.Moves)
}

// held is what a workload holds of a GPU.
type held struct {
	gpu.Slice
	Use   use
	Apart apart
}

// GPU returns the beginning of the UUID, as people tell GPUs apart.
func (h held) GPU() string { return gpu.ShortUUID(h.Slice.GPU) }

// Size says how large the slice is.
func (h held) Size() string {
	size := units.MemoryWords(h.Memory) + " of memory"
	switch {
	case h.Mode == gpu.Shared:
		return "at most " + size + ", in turns with others"
	case h.Mode == gpu.MPS:
		return fmt.Sprintf("%s, at most %d %% of the processors", size, h.Percent)
	case h.SMs > 0:
		return fmt.Sprintf("%s, %d processors (SMs)", size, h.SMs)
	default:
		return size
	}
}
