package usage

import (
	"slices"
	"time"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/internal/chart"
	"slipway/spawner"
)

// stepsMost is how many steps are told of a scan's progress: it may have a hundred thousand points.
const stepsMost = 200

// Ends gathers when the points of a scan have come to their ends.
type Ends struct {
	points int
	began  time.Time
	ends   []end
}

type end struct {
	at    time.Time
	state hubapi.State
}

// Add looks at a point.
func (e *Ends) Add(w *spawner.Workload) {
	e.points++
	if e.began.IsZero() || w.Created.Before(e.began) {
		e.began = w.Created
	}
	if state := convert.State(w); state.Ended() && w.Outcome != nil {
		e.ends = append(e.ends, end{w.Outcome.At, state})
	}
}

// Progress counts them over time.
func (e *Ends) Progress() hubapi.ScanProgress {
	slices.SortFunc(e.ends, func(a, b end) int { return a.at.Compare(b.at) })
	out := hubapi.ScanProgress{Points: e.points, Steps: []hubapi.ScanFinished{}}
	now, every := hubapi.ScanFinished{}, (len(e.ends)+stepsMost-1)/stepsMost
	for i, one := range e.ends {
		now.At = one.at.UTC()
		switch one.state {
		case hubapi.JobDone:
			now.Done++
		case hubapi.JobFailed:
			now.Failed++
		default:
			now.Canceled++
		}
		if (i+1)%every == 0 || i+1 == len(e.ends) {
			out.Steps = append(out.Steps, now)
		}
	}
	return out
}

// Chart draws them: what has failed in a colour of its own, below what is done.
func (e *Ends) Chart() string {
	p := e.Progress()
	a := chart.Axes{Title: "Points that have ended", From: e.began, To: time.Now(), Format: number, Limit: float64(p.Points)}
	if n := len(p.Steps); len(e.ends) == e.points && n > 0 {
		a.To, a.Since = p.Steps[n-1].At, true
		a.To = a.To.Add(a.To.Sub(a.From) / 50) // the last step is to be seen
	}
	times := []time.Time{a.From}
	layers := []chart.Layer{
		{Name: "failed", Class: "bad", Values: []float64{0}}, {Name: "done", Class: "good", Values: []float64{0}},
		{Name: "canceled", Class: "c5", Values: []float64{0}},
	}
	for _, s := range p.Steps {
		times = append(times, s.At)
		for i, n := range []int{s.Failed, s.Done, s.Canceled} {
			layers[i].Values = append(layers[i].Values, float64(n))
		}
	}
	return chart.Stack(a, times, layers...)
}
