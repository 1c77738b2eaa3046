package fleet

import (
	"slices"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// snapshot is all GPUs as readers see them. It never changes.
type snapshot struct {
	system gpu.System
	taken  time.Time
	fault  string // why the driver could not be asked; the rest is then of an earlier time
	views  []*view
}

// view is one GPU in a snapshot.
type view struct {
	finding
	node        placement.Node // as if nothing were held
	condition   gpu.Condition
	drain       *gpu.Drain // an administrator's
	why         string
	usable      bool // something may be leased of it now
	possible    bool // something may be leased of it some day
	own         []gpu.Instance
	foreign     []gpu.Instance
	ghosts      []gpu.Slice // shares that processes still use whose workload has ended
	quarantines []quarantine
}

// finding is a GPU, and what was last found on it.
type finding struct {
	device    gpu.Device
	rule      Rule
	reading   *gpu.Reading
	strangers []gpu.ProcessUse // processes of nobody here
	leftovers []leftover
}

// publish shows readers what is known now.
func (f *Fleet) publish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.publishLocked()
}

func (f *Fleet) publishLocked() {
	s := &snapshot{system: f.system, taken: f.taken, fault: f.fault}
	for _, c := range f.cards {
		v := f.view(c)
		f.tell(c, v)
		s.views = append(s.views, v)
	}
	old := f.now.Swap(s)
	if !slices.EqualFunc(old.views, s.views, alike) || old.fault != s.fault {
		poke(f.changed)
	}
}

// Usable reports whether something new may start on a GPU now. It is quick and asks nobody, so it may be called under
// the engine's lock.
func (f *Fleet) Usable(uuid string) bool {
	return slices.ContainsFunc(f.now.Load().views, func(v *view) bool { return v.device.UUID == uuid && v.usable })
}

// alike reports whether the same can be leased of a GPU as before.
func alike(a, b *view) bool {
	return a.device.UUID == b.device.UUID && a.usable == b.usable && a.node.Busy == b.node.Busy &&
		len(a.ghosts) == len(b.ghosts) &&
		a.condition == b.condition && (!a.node.Static || len(a.node.Ready) == len(b.node.Ready))
}

// tell logs that a GPU's condition has changed: once.
func (f *Fleet) tell(c *card, v *view) {
	if c.condition == v.condition {
		return
	}
	log := f.log.With("gpu", c.uuid, "index", c.device.Index, "model", c.device.Name)
	switch was := c.condition; {
	case v.condition == gpu.Ready && was == "":
		log.Info("a GPU is there", "mode", v.rule.Mode)
	case v.condition == gpu.Ready:
		log.Info("a GPU may be used again", "was", was)
	default:
		log.Warn("a GPU may not be used", "condition", v.condition, "why", v.why)
	}
	c.condition = v.condition
}

// view makes what readers see of a card. The lock is held.
func (f *Fleet) view(c *card) *view {
	v := &view{finding: c.finding}
	for _, in := range c.instances {
		if _, own := f.book.own(in); own {
			v.own = append(v.own, in)
		} else {
			v.foreign = append(v.foreign, in)
		}
	}
	v.quarantines = f.book.active(c.uuid, time.Now())
	v.node = f.node(c, v)
	v.condition, v.why = f.judge(c, v)
	v.drain = f.book.orders[c.uuid].Drained
	v.usable = v.condition == gpu.Ready && c.fault == "" && f.fault == ""
	v.possible = v.condition != gpu.Unset || f.maySwitch(c)
	if c.fault != "" && v.why == "" {
		v.why = c.fault
	}
	return v
}

// active returns the quarantines of a GPU, in the order of their places.
func (b *book) active(uuid string, now time.Time) []quarantine {
	var all []quarantine
	for _, q := range b.quarantines {
		if q.Slice.GPU == uuid && q.active(now) {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b quarantine) int { return a.Slice.Placement.Start - b.Slice.Placement.Start })
	return all
}

// node describes a card to the placement engine, with all that is taken on it but what is held.
func (f *Fleet) node(c *card, v *view) placement.Node {
	n := placement.Node{
		UUID: c.uuid, Model: c.device.Name, Mode: c.rule.Mode, Tier: c.tier(), Memory: c.device.Memory,
		SMs: c.device.SMs,
	}
	switch c.rule.Mode {
	case gpu.MIG:
		n.Table, n.Static = c.table, c.static()
		f.cut(c, v, &n)
	case gpu.MPS:
		n.AtOnce, n.EqualShares = c.atOnce(max(1, f.ability.Clients)), !f.ability.V3
		v.ghosts = f.ghosts(c)
	case gpu.Shared:
		n.AtOnce = c.atOnce(0)
		v.ghosts = f.ghosts(c)
	}
	return n
}

// cut puts down what lies on a GPU that is cut.
func (f *Fleet) cut(c *card, v *view, n *placement.Node) {
	for _, in := range v.own {
		if complete(in) && c.offers(in) && !f.book.spoilt(in) {
			n.Ready = append(n.Ready, placement.Ready{Profile: in.Profile, Placement: in.Placement})
		}
	}
	for _, in := range v.foreign {
		if c.rule.Adopt && complete(in) {
			n.Ready = append(n.Ready, placement.Ready{Profile: in.Profile, Placement: in.Placement})
			continue
		}
		n.Busy |= placement.Span(in.Placement)
		n.Cut = append(n.Cut, in.Profile)
	}
	for _, q := range v.quarantines {
		n.Busy |= placement.Span(q.Slice.Placement)
	}
	for _, p := range slices.Concat(asUses(c.leftovers), c.strangers) {
		if in, ok := byGI(c.instances, p.GI); ok {
			n.Busy |= placement.Span(in.Placement)
		}
	}
}

func asUses(leftovers []leftover) []gpu.ProcessUse {
	var all []gpu.ProcessUse
	for _, l := range leftovers {
		all = append(all, l.ProcessUse)
	}
	return all
}

// offers reports whether an own instance is to be used: of a layout only what belongs to it.
func (c *card) offers(in gpu.Instance) bool {
	return len(c.rule.Layout) == 0 || slices.Contains(
		c.layout, placement.Ready{Profile: in.Profile, Placement: in.Placement},
	)
}

// complete reports whether an instance can be used: a remnant cannot.
func complete(in gpu.Instance) bool { return in.CI >= 0 && in.UUID != "" }

func byGI(instances []gpu.Instance, gi int) (gpu.Instance, bool) {
	i := slices.IndexFunc(instances, func(in gpu.Instance) bool { return in.GI == gi })
	if i < 0 {
		return gpu.Instance{}, false
	}
	return instances[i], true
}

// spoilt reports whether a place has failed since the instance there was made: it is to be made anew.
func (b *book) spoilt(in gpu.Instance) bool {
	r, own := b.own(in)
	q, failed := b.quarantines[placeKey(in.GPU, in.Placement)]
	return own && failed && !q.Stuck && r.Made.Before(q.Since)
}

// ghosts returns the shares whose workload has ended while a process of it still uses the GPU.
func (f *Fleet) ghosts(c *card) []gpu.Slice {
	var all []gpu.Slice
	seen := map[string]bool{}
	for _, l := range c.leftovers {
		if seen[l.holder] {
			continue
		}
		seen[l.holder] = true
		u, ok := f.book.uses[c.uuid+"/"+l.holder]
		if !ok {
			u.Slice = gpu.Slice{GPU: c.uuid, Mode: c.rule.Mode, Memory: max(0, l.Memory)}
		}
		all = append(all, u.Slice)
	}
	return all
}
