package notify

import (
	"fmt"

	"slipway/internal/gpu"
)

// sure is in how many looks in a row a GPU is to be lost before somebody is told.
const sure = 2

// trouble says what has become of the GPU under a lease; empty: nothing new. A nil state is a GPU that is not there.
func (k *known) trouble(l gpu.Lease, state *gpu.State) string {
	why := k.gone(l, state)
	if why == "" {
		k.lost, k.told = 0, false
		return k.failure(state)
	}
	if k.lost++; k.lost < sure || k.told {
		return ""
	}
	k.told = true
	return fmt.Sprintf("The GPU that you compute on here is lost (%s): what runs on it fails, and does not come back. Write what you need to files, "+
		"and start another kernel or session: that gets another GPU", why)
}

// gone says why a slice is not there; empty: it is.
func (k *known) gone(l gpu.Lease, state *gpu.State) string {
	switch {
	case state == nil:
		return "its host does not have it any more"
	case state.Condition == gpu.Gone:
		return short(state.Why)
	case l.Slice.Mode != gpu.MIG:
		return ""
	}
	for _, s := range state.Slices {
		if !s.Slice.Same(l.Slice) {
			continue
		}
		if s.GI != nil {
			k.instance = true
			return ""
		}
	}
	if k.instance {
		return "its instance was removed from outside Slipway"
	}
	return "" // it is being made
}

// failure says that a GPU has reported an error since its slice is held.
func (k *known) failure(state *gpu.State) string {
	h := state.Health
	if h == nil {
		return ""
	}
	before, ecc := k.xids, k.ecc
	k.xids, k.ecc = h.Xids, h.ECC
	switch {
	case before < 0:
		return ""
	case h.ECC > ecc:
		return "The GPU that you compute on here has reported errors in its memory that it could not correct: what was computed just now may be wrong. " +
			"Restart the kernel and compute it again"
	case h.Xids > before:
		return fmt.Sprintf("The GPU that you compute on here has reported an error (Xid %d): if what runs on it fails now, restart the kernel; "+
			"if that does not help, start another, which gets another GPU", h.Xid)
	}
	return ""
}

const longest = 120 // bytes of the fleet's words, which are for administrators

func short(text string) string {
	for i, r := range text {
		if r == ':' || r == ';' || i > longest {
			return text[:i]
		}
	}
	return text
}
