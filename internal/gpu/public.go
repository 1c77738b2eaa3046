package gpu

import "slices"

// Public returns what everybody may read of an inventory. Why something cannot be had is said without the names of
// processes and workloads, and without what anybody's own programs have said: a self-test runs in its user's container,
// so what it says of a place are that user's words.
func (i Inventory) Public() Inventory {
	i.GPUs = slices.Clone(i.GPUs)
	for n := range i.GPUs {
		i.GPUs[n] = i.GPUs[n].public()
	}
	return i
}

func (s State) public() State {
	failed := slices.ContainsFunc(s.Slices, func(p SliceState) bool { return p.Quarantined != nil })
	switch {
	case s.Why == "":
	case s.Condition == Ready:
		s.Why = ""
	case s.Condition == Drained && s.Drain != nil:
		s.Why = "taken out of use by an administrator"
	case s.Condition == Occupied:
		s.Why = "something runs on it that Slipway has not given it to"
	case s.Condition == Drained && (failed || s.Mode == MPS):
		s.Why = "something on it has failed: it is tried again later"
	}
	s.Drain = nil
	s.Slices = slices.Clone(s.Slices)
	for n := range s.Slices {
		s.Slices[n].Why = s.Slices[n].publicWhy()
	}
	return s
}

func (p SliceState) publicWhy() string {
	switch {
	case p.Why == "":
		return ""
	case p.Quarantined != nil:
		return "it has failed, and is tried again later"
	default:
		return "something is still on it"
	}
}
