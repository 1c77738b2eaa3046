package spawnertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"slipway/internal/gpu"
)

// GPUs is one GPU that is cut into equal parts, for tests of the engine. It looks whether what the engine does with
// them may be.
type GPUs struct {
	mu       sync.Mutex // guards the fields below
	parts    int
	bad      map[int]string // parts that are not given, and why
	rotten   map[int]string // parts that turn out bad when they are to be made
	down     bool           // nothing can be asked
	inUse    map[int]string // parts that were made real, and for whom
	released []string
	faults   []string
	held     func() []gpu.Lease
}

// Part is what the GPUs' parts are called.
const Part = "1g.18gb"

// NewGPUs makes a GPU of so many parts.
func NewGPUs(parts int) *GPUs {
	return &GPUs{parts: parts, bad: map[int]string{}, rotten: map[int]string{}, inUse: map[int]string{}}
}

// Hold has the GPU look at the engine's word on who holds what, as Manager.Leases gives it: parts are made for their
// holders only, and what a killed service has not released is taken back.
func (g *GPUs) Hold(held func() []gpu.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = held
}

// Spoil has a part not be given any more; Mend ends that for all.
func (g *GPUs) Spoil(part int, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bad[part] = why
}

// Rot has a part turn out bad when it is to be made.
func (g *GPUs) Rot(part int, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rotten[part] = why
}

// Mend makes all parts good again.
func (g *GPUs) Mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bad, g.rotten, g.down = map[int]string{}, map[int]string{}, false
}

// Fall has the driver not answer.
func (g *GPUs) Fall() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = true
}

// Faults returns what the engine did that it may not do.
func (g *GPUs) Faults() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.faults)
}

// Condemned returns the parts that are not given, and why.
func (g *GPUs) Condemned() map[int]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.bad)
}

// Released returns for whom parts were released, in order.
func (g *GPUs) Released() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.released)
}

// InUse returns who has which part, as far as it was made real and not released.
func (g *GPUs) InUse() map[int]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.inUse)
}

// Reclaim takes back what was made for those who hold nothing any more, as happens after a service was killed.
func (g *GPUs) Reclaim() {
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	leases := held()
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.inUse, func(part int, by string) bool { return !holds(leases, part, by) })
}

// holds reports whether a part was made for by, according to the engine.
func holds(leases []gpu.Lease, part int, by string) bool {
	return slices.ContainsFunc(leases, func(l gpu.Lease) bool {
		return l.Slice.Placement.Start == part && (l.As == by || l.As == "" && l.Holder == by)
	})
}

// Place returns the first part that is good and that nobody holds.
func (g *GPUs) Place(r gpu.Request, held []gpu.Slice) (gpu.Slice, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for part := range g.parts {
		at := gpu.Placement{Start: part, Size: 1}
		taken := slices.ContainsFunc(held, func(s gpu.Slice) bool { return s.Placement == at })
		if g.bad[part] == "" && !taken {
			return gpu.Slice{
				GPU: "GPU-1", Model: "NVIDIA H200", Mode: gpu.MIG, Name: r.String(), Profile: Part, Placement: at,
				Memory: 16 << 30, SMs: 16, Tier: gpu.Hardware,
			}, ""
		}
	}
	return gpu.Slice{}, fmt.Sprintf("%s asked, 0 of %d free", r, g.parts)
}

// Asked notes nothing.
func (g *GPUs) Asked(gpu.Request) {}

// Never refuses all but Part.
func (g *GPUs) Never(r gpu.Request) string {
	if r.String() != Part {
		return "there is no " + r.String()
	}
	return ""
}

// Count counts.
func (g *GPUs) Count(_ gpu.Request, held []gpu.Slice) (free, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.parts - len(held), g.parts
}

// Realise notes for whom a part is made.
func (g *GPUs) Realise(_ context.Context, holder string, s gpu.Slice) (gpu.Binding, error) {
	if g.judged() {
		g.Reclaim()
	}
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	known := held == nil || holds(held(), s.Placement.Start, holder)
	g.mu.Lock()
	defer g.mu.Unlock()
	part := s.Placement.Start
	if by := g.inUse[part]; by != "" && by != holder {
		g.faults = append(g.faults, fmt.Sprintf("part %d is made for %s, and %s has it", part, holder, by))
	}
	switch why := g.rotten[part]; {
	case !known: // its start is being given up
		return gpu.Binding{}, fmt.Errorf("%s does not hold part %d", holder, part)
	case g.down:
		return gpu.Binding{}, fmt.Errorf("the driver does not answer")
	case why != "":
		g.bad[part] = why
		return gpu.Binding{}, fmt.Errorf("%w: %s", gpu.ErrBadPlace, why)
	}
	g.inUse[part] = holder
	return gpu.Binding{Name: gpu.Vendor + "=" + holder, Env: map[string]string{"SLIPWAY_GPU": s.String()}}, nil
}

func (g *GPUs) judged() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held != nil
}

// Confine is not to be called: the parts need no limit.
func (g *GPUs) Confine(context.Context, gpu.Slice, string) error {
	return fmt.Errorf("a part was to be confined")
}

// Part fails while the driver does not answer.
func (g *GPUs) Part(context.Context, string, gpu.Slice) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down {
		return fmt.Errorf("the driver does not answer")
	}
	return nil
}

// Release notes that a part is free again. It may not have been made yet.
func (g *GPUs) Release(holder string, s gpu.Slice) {
	g.mu.Lock()
	defer g.mu.Unlock()
	part := s.Placement.Start
	if by := g.inUse[part]; by != "" && by != holder {
		g.faults = append(g.faults, fmt.Sprintf("%s released part %d of %s", holder, part, by))
	}
	delete(g.inUse, part)
	g.released = append(g.released, holder)
}

// Condemn takes a part out.
func (g *GPUs) Condemn(s gpu.Slice, why string) { g.Spoil(s.Placement.Start, why) }
