package timeseries

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

const (
	fineStep, fineMost     = 30, 240   // seconds; two hours
	coarseStep, coarseMost = 600, 1008 // a week
)

// point is a Point as it is kept: 20 bytes.
type point struct {
	At     uint32 // seconds since 1970
	Values [Columns]float32
}

func (p point) public() (v Values) {
	for i, n := range p.Values {
		v[i] = float64(n)
	}
	return v
}

// bucket gathers what is measured in the time of a point.
type bucket struct {
	at    int64
	count [Columns]int
	value [Columns]float64 // the sum, or the highest
}

func (b *bucket) add(v Values, how [Columns]Aggregate) {
	for i, n := range v {
		switch {
		case math.IsNaN(n):
			continue
		case how[i] == Mean:
			b.value[i] += n
		case b.count[i] == 0 || n > b.value[i]:
			b.value[i] = n
		}
		b.count[i]++
	}
}

func (b *bucket) point(how [Columns]Aggregate) point {
	p := point{At: uint32(b.at)}
	for i, n := range b.count {
		switch {
		case n == 0:
			p.Values[i] = float32(math.NaN())
		case how[i] == Mean:
			p.Values[i] = float32(b.value[i] / float64(n))
		default:
			p.Values[i] = float32(b.value[i])
		}
	}
	return p
}

// level is a series by one step: the points that are complete, and the one that goes on.
type level struct {
	points []point
	open   bucket
	last   point // of open, as it is now; its At is 0 where nothing is open
}

func (l *level) add(now, step int64, most int, v Values, how [Columns]Aggregate) {
	at := now - now%step
	if l.last.At != 0 && l.open.at != at {
		l.points = append(l.points, l.last)
		l.points = l.points[max(0, len(l.points)-most):]
		l.open = bucket{}
	}
	if n := len(l.points); l.last.At == 0 && n > 0 && int64(l.points[n-1].At) == at { // of before a restart
		l.open.add(l.points[n-1].public(), how)
		l.points = l.points[:n-1]
	}
	l.open.at = at
	l.open.add(v, how)
	l.last = l.open.point(how)
}

// all returns the points in their order, the open one among them.
func (l *level) all() []point {
	if l.last.At == 0 {
		return l.points
	}
	return append(l.points[:len(l.points):len(l.points)], l.last)
}

func (l *level) size() int {
	if l.last.At == 0 {
		return len(l.points)
	}
	return len(l.points) + 1
}

// forget drops the points that began before a time.
func (l *level) forget(oldest int64) {
	for len(l.points) > 0 && int64(l.points[0].At) < oldest {
		l.points = l.points[1:]
	}
}

// series is what was measured of one thing.
type series struct {
	fine, coarse level
	last         int64  // when something was added last
	latest       Values // that
	fresh        bool   // latest is known: not after a restart
	unsaved      bool
}

func (s *series) add(now int64, v Values, how [Columns]Aggregate) {
	s.fine.add(now, fineStep, fineMost, v, how)
	s.coarse.add(now, coarseStep, coarseMost, v, how)
	s.last, s.latest, s.fresh, s.unsaved = now, v, true, true
}

func (s *series) size() int { return s.fine.size() + s.coarse.size() }

func (s *series) forget(oldest int64) {
	s.fine.forget(oldest)
	s.coarse.forget(oldest)
}

// each tells of the fine points, and before them of the coarse ones that end before those begin.
func (s *series) each(tell func(p point, step uint32)) {
	fine := s.fine.all()
	for _, p := range s.coarse.all() {
		if len(fine) == 0 || p.At+coarseStep <= fine[0].At {
			tell(p, coarseStep)
		}
	}
	for _, p := range fine {
		tell(p, fineStep)
	}
}

// stored is a series as the store has it: its points one after another, little-endian, in base64.
type stored struct {
	Fine   []byte `json:"fine"`
	Coarse []byte `json:"coarse"`
}

// marshal returns a series by a clock that was set by so much.
func (s *series) marshal(shift int64) stored {
	return stored{Fine: encode(s.fine.all(), shift), Coarse: encode(s.coarse.all(), shift)}
}

func encode(points []point, shift int64) []byte {
	var b bytes.Buffer
	for _, p := range points {
		p.At = uint32(int64(p.At) + shift)
		_ = binary.Write(&b, binary.LittleEndian, p) // into memory
	}
	return b.Bytes()
}

// unmarshal reads a series at now. Points of a time that has not come yet are of a clock that was wrong: they are left
// out.
func unmarshal(text json.RawMessage, now int64) (*series, error) {
	var from stored
	if err := json.Unmarshal(text, &from); err != nil {
		return nil, err
	}
	s := &series{}
	for _, l := range []struct {
		into *level
		from []byte
		most int
	}{{&s.fine, from.Fine, fineMost}, {&s.coarse, from.Coarse, coarseMost}} {
		points := make([]point, len(l.from)/binary.Size(point{}))
		if _, err := binary.Decode(l.from, binary.LittleEndian, points); err != nil {
			return nil, fmt.Errorf("read its points: %w", err)
		}
		for _, p := range points[max(0, len(points)-l.most-1):] { // the one that was open is among them
			if at := int64(p.At); at <= now && at > s.lastOf(l.into) {
				l.into.points = append(l.into.points, p)
				s.last = max(s.last, at)
			}
		}
	}
	return s, nil
}

// lastOf returns when the last point of a level began.
func (s *series) lastOf(l *level) int64 {
	if len(l.points) == 0 {
		return -1
	}
	return int64(l.points[len(l.points)-1].At)
}
