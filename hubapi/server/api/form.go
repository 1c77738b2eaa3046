package api

import (
	"net/http"

	"slipway/hubapi"
	"slipway/hubapi/server/convert"
	"slipway/hubapi/server/web"
	"slipway/internal/units"
	"slipway/spawner/catalog"
)

// profiles lists what the site offers, and what of it is free.
func (s *UserHandlers) profiles(r *http.Request, _ web.None) ([]hubapi.Profile, error) {
	out := []hubapi.Profile{}
	c := web.CallerOf(r.Context())
	offers := s.offers.Of(c.Hub, c.User)
	rooms, active := s.offers.Rooms(c.Hub, c.User, offers.Profiles), s.offers.ActiveByImage(c.Hub)
	for _, p := range offers.Profiles {
		images := []hubapi.Image{}
		for _, name := range p.Images {
			if i, ok := offers.Image(name); ok {
				images = append(images, hubapi.Image{Name: i.Name, Title: i.Title, Ref: i.Ref, Active: active[name]})
			}
		}
		room := rooms[p.Name]
		out = append(out, hubapi.Profile{
			Name: p.Name, Title: p.Title, Description: p.Description, Kind: string(p.Kind), Images: images,
			Resources: hubapi.Resources{CPUs: p.CPUs, Memory: units.FormatMemory(p.Memory), GPU: p.GPU.String()},
			MaxCPUs:   p.MostCPUs(), MaxMemory: units.FormatMemory(p.MostMemory()), Isolation: isolationOf(p),
			Default: p.Default, Backend: p.Backend,
			Availability: convert.Availability(room),
		})
	}
	return out, nil
}

// isolationOf says what keeps the slice of a profile's sessions apart from its neighbours, at the least.
func isolationOf(p catalog.Profile) string {
	if p.GPU.None() {
		return ""
	}
	return string(p.GPU.LeastTier())
}
