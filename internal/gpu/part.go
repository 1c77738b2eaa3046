package gpu

import (
	"strconv"
	"strings"
)

// Parts of a GPU.
const (
	computeSlices = 7    // that a GPU is cut into at most
	memorySlots   = 8    // of those
	smallSlices   = 4    // of an A30, which has as many slots
	sharedPart    = 0.25 // of a GPU in turns: as many as usually share one
)

// Part returns which part of one GPU a slice is, from 0 to 1: of its processors or of its memory, whichever is more.
// One that is shared in turns counts as a quarter.
func (s Slice) Part() float64 {
	if s.Mode == MIG && s.Placement.Size > 0 {
		_, slots := cuts(s.Model)
		return max(migPart(s.Profile, s.Model), min(1, float64(s.Placement.Size)/float64(slots)))
	}
	return Request{Mode: s.Mode, Profile: s.Profile, Percent: s.Percent}.Part()
}

// Part returns which part of one GPU is asked for, as far as the request says it; of no GPU 0.
func (r Request) Part() float64 {
	switch r.Mode {
	case "":
		return 0
	case MIG:
		return migPart(r.Profile, r.Model)
	case MPS:
		return float64(r.Percent) / 100
	case Shared:
		return sharedPart
	default:
		return 1
	}
}

// migPart reads the compute slices of a profile such as "1g.18gb".
func migPart(profile, model string) float64 {
	number, _, _ := strings.Cut(profile, "g")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 1
	}
	slices, _ := cuts(model)
	return min(1, float64(n)/float64(slices))
}

// cuts returns the compute slices and the memory slots of a model.
func cuts(model string) (slices, slots int) {
	if strings.Contains(strings.ToUpper(model), "A30") {
		return smallSlices, smallSlices
	}
	return computeSlices, memorySlots
}
