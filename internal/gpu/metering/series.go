package metering

import (
	"math"
	"time"
)

// Point is one value of a slice's history: of 10 s, or of 5 min when it is older than an hour or so. What was not
// measured is nil.
type Point struct {
	At     time.Time `json:"at"`     // when it began
	SM     *float64  `json:"sm"`     // percent, the mean
	Top    *float64  `json:"top"`    // percent, the highest
	Memory *int64    `json:"memory"` // bytes, the most; whole MiB
}

// A slice's history takes 12 bytes a point: at most 360 of 10 s and 2016 of 5 min, which is 28,512 bytes.
const (
	fineStep, fineMost     = 10, 360
	coarseStep, coarseMost = 300, 2016
)

// point is a Point as it is kept. at is in seconds since the sampler began, by the clock that nobody sets: points stay
// in order and apart as they were, whatever happens to the time of day.
type point struct {
	at      uint32
	memory  uint32 // MiB
	sm, top uint16 // hundredths of a percent
}

const (
	noMemory = math.MaxUint32
	noSM     = math.MaxUint16
)

// ring keeps the last points of one step.
type ring struct {
	step   uint32
	most   int
	points []point
	next   int // where the oldest is, once it is full
	open   bucket
}

// bucket gathers the samples of the point that is still open.
type bucket struct {
	at     uint32
	used   bool
	n      int // samples with an sm
	sum    float64
	top    float64
	memory int64
}

func (r *ring) add(at uint32, sm float64, memory int64) {
	at -= at % r.step
	if r.open.used && r.open.at != at {
		r.push(r.open.point())
		r.open = bucket{}
	}
	b := &r.open
	if !b.used {
		*b = bucket{at: at, used: true, memory: unknown}
	}
	if sm >= 0 {
		b.n, b.sum, b.top = b.n+1, b.sum+sm, max(b.top, sm)
	}
	b.memory = max(b.memory, memory)
}

func (r *ring) push(p point) {
	if len(r.points) < r.most {
		r.points = append(r.points, p)
		return
	}
	r.points[r.next] = p
	r.next = (r.next + 1) % r.most
}

// all returns the points in order, the open one included.
func (r *ring) all() []point {
	ps := append(append(make([]point, 0, len(r.points)+1), r.points[r.next:]...), r.points[:r.next]...)
	if r.open.used {
		ps = append(ps, r.open.point())
	}
	return ps
}

func (b bucket) point() point {
	p := point{at: b.at, memory: noMemory, sm: noSM, top: noSM}
	if b.n > 0 {
		p.sm, p.top = hundredths(b.sum/float64(b.n)), hundredths(b.top)
	}
	if b.memory >= 0 {
		p.memory = uint32(min(b.memory>>20, noMemory-1))
	}
	return p
}

func hundredths(percent float64) uint16 { return uint16(math.Round(min(percent, 100) * 100)) }

// series is the history of one slice.
type series struct{ fine, coarse ring }

func newSeries() series {
	return series{fine: ring{step: fineStep, most: fineMost}, coarse: ring{step: coarseStep, most: coarseMost}}
}

func (s *series) add(at uint32, sm float64, memory int64) {
	s.fine.add(at, sm, memory)
	s.coarse.add(at, sm, memory)
}

// points returns the history: the fine points, and before them the coarse ones that ended before those begin.
func (s *series) points(began time.Time) []Point {
	fine := s.fine.all()
	var all []Point
	for _, p := range s.coarse.all() {
		if len(fine) > 0 && p.at+coarseStep <= fine[0].at {
			all = append(all, p.public(began))
		}
	}
	for _, p := range fine {
		all = append(all, p.public(began))
	}
	return all
}

func (p point) public(began time.Time) Point {
	out := Point{At: began.Add(time.Duration(p.at) * time.Second)}
	if p.sm != noSM {
		sm, top := float64(p.sm)/100, float64(p.top)/100
		out.SM, out.Top = &sm, &top
	}
	if p.memory != noMemory {
		memory := int64(p.memory) << 20
		out.Memory = &memory
	}
	return out
}
