package fleet

import (
	"fmt"
	"strings"

	"slipway/internal/gpu"
	"slipway/internal/gpu/placement"
)

// pack finds places for all instances of a layout. The same layout on the same model always lies the same.
func pack(d gpu.Device, layout []string) ([]placement.Ready, error) {
	profiles := make([]gpu.Profile, len(layout))
	for i, name := range layout {
		p, ok := profileOf(d, name)
		if !ok {
			return nil, fmt.Errorf(
				"gpu.devices: layout: %q is no profile of %s: use some of %s", name, d.Name,
				strings.Join(names(d), ", "),
			)
		}
		profiles[i] = p
	}
	lies := make([]placement.Ready, 0, len(layout))
	if !fit(profiles, 0, &lies) {
		return nil, fmt.Errorf(
			"gpu.devices: layout: %s do not fit together on %s: leave some out", strings.Join(layout, ", "), d.Name,
		)
	}
	return lies, nil
}

// fit lays the first of profiles at its lowest possible place and the others beside it, or at its next one.
func fit(profiles []gpu.Profile, busy placement.Mask, lies *[]placement.Ready) bool {
	if len(profiles) == 0 {
		return true
	}
	p := profiles[0]
	if p.Max > 0 && count(*lies, p.Name) >= p.Max {
		return false
	}
	for _, at := range p.Placements {
		span := placement.Span(at)
		if busy&span != 0 {
			continue
		}
		*lies = append(*lies, placement.Ready{Profile: p.Name, Placement: at})
		if fit(profiles[1:], busy|span, lies) {
			return true
		}
		*lies = (*lies)[:len(*lies)-1]
	}
	return false
}

func count(lies []placement.Ready, profile string) (n int) {
	for _, r := range lies {
		if r.Profile == profile {
			n++
		}
	}
	return n
}

// profileOf finds a profile by its name, or by its compute slices alone: then the smallest without an attribute.
func profileOf(d gpu.Device, name string) (best gpu.Profile, ok bool) {
	name = strings.ToLower(name)
	for _, p := range d.Profiles {
		if strings.EqualFold(p.Name, name) {
			return p, true
		}
		short := fmt.Sprintf("%dg", p.Compute) == name && !strings.ContainsAny(p.Name, "+-")
		if short && (!ok || p.Memory < best.Memory) {
			best, ok = p, true
		}
	}
	return best, ok
}

func names(d gpu.Device) []string {
	var all []string
	for _, p := range d.Profiles {
		all = append(all, p.Name)
	}
	return all
}
