package webui

import (
	"fmt"
	"math"
	"strings"

	"slipway/internal/gpu"
)

// bar draws what of a GPU is taken. It says nothing that is not in words as well.
type bar struct {
	Label    string    // the same in words
	Ticks    []float64 // between two slots, in percent
	Segments []segment
}

// segment is a slice in the bar. Its numbers are percents of the bar's length.
type segment struct {
	Number      int // of its line below the bar
	Name, Key   string
	From, Width float64
	Wide        bool // there is room for its name
}

// Middle is where its text stands.
func (s segment) Middle() float64 { return tenths(s.From + s.Width/2) }

// barOf draws a GPU; nil where slices have no size to draw: a lost GPU, and one that is used in turns.
func barOf(g gpu.State) *bar {
	if g.Mode == gpu.Shared || len(g.Slices) == 0 && g.Mode != gpu.MIG || g.Mode == gpu.MIG && g.Device.Slots == 0 {
		return nil
	}
	b := &bar{}
	if g.Mode == gpu.MIG {
		for slot := 1; slot < g.Device.Slots; slot++ {
			b.Ticks = append(b.Ticks, tenths(100*float64(slot)/float64(g.Device.Slots)))
		}
	}
	from := 0.0
	for i, s := range g.Slices {
		at := segment{Number: i + 1, Name: s.Slice.Name, Key: stateKey(s)}
		at.From, at.Width = extent(g, s.Slice, from)
		from = at.From + at.Width
		at.Wide = at.Width >= 12
		b.Segments = append(b.Segments, at)
	}
	b.Label = b.words(g)
	return b
}

// extent returns where a slice begins and how long it is. Those of MPS have no place: they stand one after the other.
func extent(g gpu.State, s gpu.Slice, from float64) (start, width float64) {
	switch g.Mode {
	case gpu.MIG:
		per := 100 / float64(g.Device.Slots)
		return tenths(per * float64(s.Placement.Start)), tenths(per * float64(s.Placement.Size))
	case gpu.MPS:
		if g.Device.Memory <= 0 {
			return from, 0
		}
		return from, tenths(max(0, min(100-from, 100*float64(s.Memory)/float64(g.Device.Memory))))
	default:
		return 0, 100
	}
}

func (b *bar) words(g gpu.State) string {
	var words []string
	for i, s := range b.Segments {
		words = append(words, strings.Join(strings.Fields(
			fmt.Sprintf("%d: %s %s %s", s.Number, s.Name, placeWords(g.Slices[i].Slice.Placement), stateWords(s.Key)),
		), " "))
	}
	if len(words) == 0 {
		words = []string{"nothing is cut out"}
	}
	axis := "The GPU: "
	if g.Mode == gpu.MIG {
		axis = fmt.Sprintf("%d memory slots: ", g.Device.Slots)
	}
	return axis + strings.Join(words, "; ")
}

func tenths(f float64) float64 { return math.Round(f*10) / 10 }
