package fleet

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// card is one GPU as it was last seen.
type card struct {
	uuid string
	turn chan struct{} // who holds its token may change the GPU, and conclude from what is listed

	// The Fleet's lock guards the rest.
	finding
	absent    bool   // the driver lists GPUs, and not this one
	lost      string // the driver's words when it says so
	fault     string // why the driver could not be asked about it
	instances []gpu.Instance
	health    gpu.Health
	readAt    time.Time
	who       string // strangers and leftovers, named to administrators
	table     *placement.Table
	layout    []placement.Ready // what the rule's layout comes to
	misfit    string            // why the GPU cannot be cut as the rule says
	limits    *bool             // the driver limits memory by control group; nil: not tried
	switching string            // what became of the last try to switch MIG
	switchAt  time.Time         // not to be tried again before
	daemon    string            // mps: what is wrong with its daemon
	due       bool              // to be looked at soon, with a new reading
	condition gpu.Condition     // as last logged
}

// leftover is a process of a workload that does not hold the part of the GPU that it is on.
type leftover struct {
	gpu.ProcessUse
	holder string
}

// take waits for the card's turn.
func (c *card) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s, which is being changed: %w", gpu.ShortUUID(c.uuid), ctx.Err())
	}
}

// try takes the card's turn if nobody has it.
func (c *card) try() bool {
	select {
	case c.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// give passes the turn on. What became due meanwhile is looked at within recheck: sooner would be a loop that never
// rests while something stays wrong.
func (c *card) give() { <-c.turn }

// card finds a GPU; nil when none of this UUID was ever seen.
func (f *Fleet) card(uuid string) *card {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cardLocked(uuid)
}

func (f *Fleet) cardLocked(uuid string) *card {
	i := slices.IndexFunc(f.cards, func(c *card) bool { return c.uuid == uuid })
	if i < 0 {
		return nil
	}
	return f.cards[i]
}

// ruleFor finds the first rule that matches a GPU.
func ruleFor(rules []Rule, d gpu.Device) Rule {
	for _, r := range rules {
		if r.matches(d) {
			return r
		}
	}
	return Rule{Match: "*", Mode: gpu.Whole}
}

func (r Rule) matches(d gpu.Device) bool {
	switch {
	case r.Match == "*" || r.Match == strconv.Itoa(d.Index):
		return true
	case r.Match == "":
		return false
	}
	return strings.HasPrefix(d.UUID, r.Match) || !isNumber(r.Match) && strings.Contains(
		strings.ToLower(d.Name), strings.ToLower(r.Match),
	)
}

// isNumber keeps an index from being taken for a part of a model's name: GPU 1 is not every H100.
func isNumber(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}

// atOnce is how many workloads may be on the GPU.
func (c *card) atOnce(clients int) int {
	switch {
	case c.rule.Mode == gpu.MPS && c.rule.AtOnce == 0:
		return clients
	case c.rule.Mode == gpu.MPS:
		return min(c.rule.AtOnce, clients)
	case c.rule.AtOnce == 0:
		return 4
	}
	return c.rule.AtOnce
}

// describe takes over what the driver says of a GPU, and compiles its table when that has changed.
func (c *card) describe(d gpu.Device, r Rule) {
	same := c.table != nil && d.Slots == c.device.Slots && reflect.DeepEqual(d.Profiles, c.device.Profiles)
	c.device, c.rule, c.absent = d, r, false
	if r.Mode != gpu.MIG || same {
		return
	}
	c.table, c.layout, c.misfit = nil, nil, ""
	if d.Slots == 0 || len(d.Profiles) == 0 {
		c.misfit = "it cannot be cut into MIG instances: set another mode for it in gpu.devices"
		return
	}
	var err error
	if c.table, err = placement.NewTable(d.Slots, d.Profiles); err != nil {
		c.misfit = fmt.Sprintf("what its driver says of its profiles makes no sense: %v", err)
		return
	}
	if c.layout, err = pack(d, r.Layout); err != nil {
		c.misfit = err.Error()
	}
}

// static reports whether only instances that are there may be used.
func (c *card) static() bool { return c.rule.Adopt || len(c.rule.Layout) > 0 }

// tier is what keeps the memory of the GPU's slices apart.
func (c *card) tier() gpu.Tier {
	if t := c.rule.Mode.Promise(); t.AtLeast(gpu.Cgroup) || c.limits == nil || !*c.limits {
		return t
	}
	return gpu.Cgroup
}
