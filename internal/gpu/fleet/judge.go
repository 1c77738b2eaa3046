package fleet

import (
	"fmt"
	"strings"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// judge says whether a GPU may be leased from, and why not. The lock is held.
func (f *Fleet) judge(c *card, v *view) (gpu.Condition, string) {
	switch drained := f.drained(c); {
	case c.absent:
		return gpu.Gone, "the driver does not list it any more: look at dmesg, and reset the GPU or the host"
	case c.lost != "":
		return gpu.Gone, c.lost
	case c.health.Lost:
		return gpu.Gone, strings.TrimSuffix("it does not answer: "+c.health.Reason, ": ")
	case drained != "":
		return gpu.Drained, drained
	}
	if why := f.unset(c, v); why != "" {
		return gpu.Unset, why
	}
	if c.rule.Mode != gpu.MIG {
		return c.judgeUncut(v)
	}
	var others placement.Mask
	for _, in := range v.foreign {
		others |= placement.Span(in.Placement)
	}
	switch {
	case len(v.foreign) == 0 || c.rule.Adopt:
		return gpu.Ready, ""
	case full(c.device, others):
		return gpu.Occupied, fmt.Sprintf("instances that somebody else has made take all of it: destroy them, or set adopt for it in gpu.devices (%s)", listed(v.foreign))
	}
	return gpu.Ready, fmt.Sprintf("somebody else has made instances on it, which are left alone: %s", listed(v.foreign))
}

// full reports whether no profile has room beside busy.
func full(d gpu.Device, busy placement.Mask) bool {
	for _, p := range d.Profiles {
		for _, at := range p.Placements {
			if busy&placement.Span(at) == 0 {
				return false
			}
		}
	}
	return true
}

func listed(instances []gpu.Instance) string {
	var words []string
	for _, in := range instances {
		words = append(words, fmt.Sprintf("%s at %d", in.Profile, in.Placement.Start))
	}
	return strings.Join(words, ", ")
}

// judgeUncut judges a GPU that is healthy and in its mode, which is not to be cut.
func (c *card) judgeUncut(v *view) (gpu.Condition, string) {
	switch {
	case len(v.quarantines) > 0:
		return gpu.Drained, v.quarantines[0].words()
	case c.daemon != "" && c.rule.Mode == gpu.MPS:
		return gpu.Drained, c.daemon
	case c.rule.Mode != gpu.Shared && len(c.strangers) > 0, c.rule.Mode == gpu.Whole && len(c.leftovers) > 0:
		return gpu.Occupied, "used by " + c.who
	case len(c.strangers) > 0:
		return gpu.Ready, "also used by " + c.who
	}
	return gpu.Ready, ""
}

// sickness says what speaks against a GPU that still answers.
func sickness(h gpu.Health) string {
	var words []string
	if h.Xid != 0 {
		words = append(words, fmt.Sprintf("the driver has reported Xid %d", h.Xid))
	}
	if h.ECC > 0 {
		words = append(words, fmt.Sprintf("%d uncorrected memory errors", h.ECC))
	}
	if h.RowsPending {
		words = append(words, "memory rows wait for a reset to be remapped")
	}
	if len(words) == 0 {
		return ""
	}
	if h.Reason != "" {
		words = append(words, h.Reason)
	}
	return strings.Join(words, "; ") + ": what runs on it goes on; reset the GPU when it is empty"
}

// unset says why a GPU is not in the mode that its rule wants, and what is to be done.
func (f *Fleet) unset(c *card, v *view) string {
	switch want := c.rule.Mode == gpu.MIG; {
	case want && c.misfit != "":
		return c.misfit
	case want && !c.device.MIGCapable:
		return "it cannot be cut into MIG instances: set another mode for it in gpu.devices"
	case want && !c.device.MIGEnabled:
		return "MIG is off. " + f.howToSwitch(c, 1)
	case !want && c.device.MIGEnabled:
		return fmt.Sprintf(
			"MIG is on and mode %s is wanted. If it is to be cut, give it `mode: mig` in gpu.devices. If not: %s",
			c.rule.Mode, f.howToSwitch(c, 0),
		)
	case c.rule.Mode == gpu.MPS && f.mpsFault != "":
		return f.mpsFault
	}
	return ""
}

func (f *Fleet) howToSwitch(c *card, on int) string {
	byHand := fmt.Sprintf("nvidia-smi -i %s -mig %d", c.uuid, on)
	switch {
	case c.switching != "":
		return c.switching
	case c.device.MIGReset:
		return "Slipway does not switch GPUs that need a reset for it: empty it, then run " + byHand +
			" and nvidia-smi -r -i " + c.uuid
	case !f.cfg.SwitchMIG:
		return "Empty it and run " + byHand + ", or set gpu.switch_mig: true"
	}
	return "It is switched as soon as nothing uses it"
}

// maySwitch reports whether the fleet itself will bring a GPU into its mode.
func (f *Fleet) maySwitch(c *card) bool {
	return f.cfg.SwitchMIG && !c.device.MIGReset && c.device.MIGCapable && c.misfit == "" &&
		c.device.MIGEnabled != (c.rule.Mode == gpu.MIG)
}
