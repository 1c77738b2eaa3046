package placement

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"slipway/internal/gpu"
)

// Mask is a set of memory slots of one GPU: bit 0 is slot 0.
type Mask uint16

// MostSlots is the longest axis that a Mask can hold.
const MostSlots = 16

// Span returns the slots of a placement.
func Span(p gpu.Placement) Mask {
	return Mask((uint32(1)<<uint(p.Size) - 1) << uint(p.Start))
}

// Table is what a model of GPU can be cut into, compiled from what its driver reports. It never changes; all GPUs of a
// model may share one.
type Table struct {
	slots  int
	shapes []shape
	names  map[string]int // by full name, and by short name: "1g" is the smallest of one compute slice
}

// shape is a profile, ready for use.
type shape struct {
	gpu.Profile
	size  int    // slots
	spots []Mask // where it may lie, from the lowest start
	// Most instances of one attribute draw on the same few engines of the GPU: all shapes of the same kin together may
	// be there only limit times. Without a limit of its own a shape is held back by its slots alone.
	kin   string
	limit int
}

// NewTable compiles the profiles of a model with an axis of so many slots.
func NewTable(slots int, profiles []gpu.Profile) (*Table, error) {
	if slots < 1 || slots > MostSlots {
		return nil, fmt.Errorf("an axis of %d slots: from 1 to %d can be placed on", slots, MostSlots)
	}
	t := &Table{slots: slots, names: map[string]int{}}
	for _, p := range profiles {
		s, err := compile(slots, p)
		if err != nil {
			return nil, err
		}
		if _, double := t.names[p.Name]; double {
			return nil, fmt.Errorf("profile %s stands twice", p.Name)
		}
		t.names[p.Name] = len(t.shapes)
		t.shapes = append(t.shapes, s)
	}
	if len(t.shapes) == 0 {
		return nil, fmt.Errorf("no profile has a placement")
	}
	t.nameShort()
	t.limitKin()
	return t, nil
}

func compile(slots int, p gpu.Profile) (shape, error) {
	if len(p.Placements) == 0 || p.Compute < 1 {
		return shape{}, fmt.Errorf(
			"profile %s has %d compute slices and %d placements", p.Name, p.Compute, len(p.Placements),
		)
	}
	s := shape{Profile: p, size: p.Placements[0].Size, kin: kin(p.Name)}
	for _, at := range p.Placements {
		if at.Size != s.size || at.Size < 1 || at.Start < 0 || at.Start+at.Size > slots {
			return shape{}, fmt.Errorf(
				"profile %s cannot lie at %d with size %d on %d slots", p.Name, at.Start, at.Size, slots,
			)
		}
		s.spots = append(s.spots, Span(at))
	}
	slices.Sort(s.spots)
	return s, nil
}

// nameShort lets the smallest profile of so many compute slices be called by those and its attribute: "1g", "1g+me".
func (t *Table) nameShort() {
	for i, s := range t.shapes {
		short := fmt.Sprintf("%dg%s", s.Compute, attribute(s.Name))
		if j, taken := t.names[short]; !taken || s.Memory < t.shapes[j].Memory {
			t.names[short] = i
		}
	}
}

// limitKin finds the shapes of which fewer may be there than there is room for. What runs out is then an engine, not
// slots, and all shapes of the same kin use it.
func (t *Table) limitKin() {
	most := map[string]int{}
	for _, s := range t.shapes {
		if s.Max > 0 && s.Max < s.room(0) {
			most[s.kin] = max(most[s.kin], s.Max)
		}
	}
	for i, s := range t.shapes {
		t.shapes[i].limit = most[s.kin]
	}
}

// attribute returns what stands behind the size in a profile's name: "+me" of "1g.18gb+me".
func attribute(name string) string {
	if i := strings.IndexAny(name, "+-"); i >= 0 {
		return name[i:]
	}
	return ""
}

// kin returns the engines that an attribute stands for: "+me" and "+me.all" are both "+me", "-me" has none. A profile
// without an attribute has only slots.
func kin(name string) string {
	word, _, _ := strings.Cut(attribute(name), ".")
	return word
}

// find returns the number of the profile that a request calls so, -1 when there is none.
func (t *Table) find(name string) int {
	if i, ok := t.names[name]; ok {
		return i
	}
	return -1
}

// room counts how many of a shape fit beside busy, slots alone looked at. Going from the lowest start is best, for all
// are of one size.
func (s *shape) room(busy Mask) int {
	n := 0
	for _, m := range s.spots {
		if busy&m == 0 {
			n, busy = n+1, busy|m
		}
	}
	return n
}

// Unusable says what part of the free slots beside busy a profile cannot use, however many of it are placed there: from
// 0 to 1. It is 0 on a full GPU and for a profile that the table does not have.
func (t *Table) Unusable(busy Mask, profile string) float64 {
	free := t.slots - bits.OnesCount16(uint16(busy))
	i := t.find(profile)
	if free == 0 || i < 0 {
		return 0
	}
	s := &t.shapes[i]
	// What an empty GPU cannot give either is the geometry's fault, not that of those who placed: slot 7 has no compute
	// slice.
	lost := t.slots - s.room(0)*s.size
	return float64(max(0, free-s.room(busy)*s.size-lost)) / float64(free)
}

// Share returns what part of a GPU's compute slices a profile has, 0 when the table does not have it.
func (t *Table) Share(profile string) float64 {
	i := t.find(profile)
	if i < 0 {
		return 0
	}
	most := 0
	for _, s := range t.shapes {
		most = max(most, s.Compute)
	}
	return float64(t.shapes[i].Compute) / float64(most)
}

// Slots returns the length of the axis.
func (t *Table) Slots() int { return t.slots }

// Name returns the full name of the profile that a request calls so; empty when the table does not have it.
func (t *Table) Name(profile string) string {
	if i := t.find(profile); i >= 0 {
		return t.shapes[i].Name
	}
	return ""
}

// LayOut finds placements for all profiles of a layout together, in its order; why says what is wrong with it.
func (t *Table) LayOut(layout []string) (at []gpu.Placement, why string) {
	for _, name := range layout {
		if t.find(name) < 0 {
			return nil, fmt.Sprintf("%s is none of its profiles: %s", name, strings.Join(t.Profiles(), ", "))
		}
	}
	at = make([]gpu.Placement, len(layout))
	if !t.layOut(layout, at, 0, 0) {
		return nil, "they do not fit on one GPU together"
	}
	return at, ""
}

// layOut places the rest of a layout beside what is busy, trying all places.
func (t *Table) layOut(layout []string, at []gpu.Placement, i int, busy Mask) bool {
	if i == len(layout) {
		return true
	}
	s := &t.shapes[t.find(layout[i])]
	if s.limit > 0 && t.kinOf(layout[:i], s.kin) >= s.limit {
		return false
	}
	for _, m := range s.spots {
		if busy&m == 0 && t.layOut(layout, at, i+1, busy|m) {
			at[i] = m.placement()
			return true
		}
	}
	return false
}

// kinOf counts those of a layout that use the same engines.
func (t *Table) kinOf(layout []string, word string) int {
	count := 0
	for _, name := range layout {
		if t.shapes[t.find(name)].kin == word {
			count++
		}
	}
	return count
}

// Profiles returns the full names of all profiles, in the driver's order.
func (t *Table) Profiles() []string {
	names := make([]string, len(t.shapes))
	for i, s := range t.shapes {
		names[i] = s.Name
	}
	return names
}
