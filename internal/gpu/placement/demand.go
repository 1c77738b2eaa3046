package placement

const (
	window  = 512 // after so many requests all that were before count half
	refresh = 32  // requests between two looks at what is asked for
	trust   = 32  // how many requests the prior is worth
)

// demand is how often each profile was asked for lately, by the name that requests gave it. It keeps at most a few
// hundred names.
type demand struct {
	counts map[string]float64
	total  float64
	noted  int
}

func newDemand() demand { return demand{counts: map[string]float64{}} }

// note counts a request and reports whether it is time to look again.
func (d *demand) note(name string) bool {
	d.counts[name]++
	d.total++
	d.noted++
	if d.noted%window == 0 {
		d.fade()
	}
	return d.noted%refresh == 0
}

// fade halves all counts, and forgets what was asked for once and not again.
func (d *demand) fade() {
	d.total = 0
	for name, n := range d.counts {
		if n /= 2; n < 1 {
			delete(d.counts, name)
			continue
		}
		d.counts[name] = n
		d.total += n
	}
}

// weights returns how likely each profile of a table is asked for next. Before anything was asked for, small ones are
// thought more likely, in the measure that all sizes together take the same number of slots, and such with an attribute
// not at all.
func (d *demand) weights(t *Table) []float64 {
	prior, sum := make([]float64, len(t.shapes)), 0.0
	for i, s := range t.shapes {
		if attribute(s.Name) == "" {
			prior[i] = 1 / float64(s.size)
			sum += prior[i]
		}
	}
	known := 0.0
	w := make([]float64, len(t.shapes))
	for name, n := range d.counts {
		if i := t.find(name); i >= 0 {
			w[i] += n
			known += n
		}
	}
	for i := range w {
		if sum > 0 {
			prior[i] /= sum
		}
		w[i] = (w[i] + trust*prior[i]) / (known + trust)
	}
	return w
}

// score is what the free slots of a GPU are worth, for each set of busy ones.
type score struct{ worth []float64 }

// scoreOf computes the scores of a table, or finds them.
func (e *Engine) scoreOf(t *Table) *score {
	s := e.scores[t]
	if s == nil {
		s = newScore(t, e.demand.weights(t))
		e.scores[t] = s
	}
	return s
}

// newScore weighs, for each set of busy slots, the placements that are still possible: a profile counts with how often
// it is asked for and with its compute slices, in the measure in which its placements are still there.
func newScore(t *Table, weights []float64) *score {
	s := &score{worth: make([]float64, 1<<t.slots)}
	for i, shape := range t.shapes {
		each := weights[i] * float64(shape.Compute) / float64(len(shape.spots))
		if each == 0 {
			continue
		}
		for _, m := range shape.spots {
			s.add(m, each)
		}
	}
	return s
}

// add gives worth to all sets that leave m free.
func (s *score) add(m Mask, worth float64) {
	for busy := range s.worth {
		if Mask(busy)&m == 0 {
			s.worth[busy] += worth
		}
	}
}
