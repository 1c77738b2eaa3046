package outpost

import (
	"encoding/json"
	"net/http"
	"time"

	"slipway/internal/units"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Flavor is a profile as the Outpost protocol has it.
type Flavor struct {
	DisplayName string          `json:"display_name"`
	Description string          `json:"description"`
	Weight      int             `json:"weight"`     // the highest stands first
	Max         int             `json:"max"`        // sessions of the hub that there can be now; -1: as many as it likes
	MaxPerUser  int             `json:"maxPerUser"` // -1: as many as the user likes
	Runtime     map[string]int  `json:"runtime"`    // days, hours or minutes until a session is stopped; empty: it is not
	Resources   FlavorResources `json:"resources"`
	Current     int             `json:"current"` // sessions of the hub that there are, waiting ones included
}

// FlavorResources are what a session of a flavor has.
type FlavorResources struct {
	CPUs   float64 `json:"cpus"`
	Memory string  `json:"memory"`
}

// Flavors returns what a hub may start for any of its users, and how much of it is free now. What other hubs hold of
// the same hardware shows in Max, which is never less than Current.
func (o *Outpost) Flavors(hub string) map[string]Flavor {
	return o.flavors(hub, o.cfg.Catalogue.Profiles)
}

func (o *Outpost) flavors(hub string, profiles []catalog.Profile) map[string]Flavor {
	rooms := o.offers.Rooms(hub, "", profiles)
	census := o.cfg.Engine.Census(hub, func(w spawner.Workload) string { return w.Spec.Profile })
	out := map[string]Flavor{}
	for i, p := range profiles {
		weight := 10 * (len(profiles) - i)
		if p.Default {
			weight += 10 * len(profiles)
		}
		f := Flavor{
			DisplayName: p.Title, Description: p.Description, Weight: weight, Max: -1, MaxPerUser: -1,
			Runtime:   runtimeOf(p.Life.MaxAge),
			Resources: FlavorResources{p.CPUs, units.FormatMemory(p.Memory)}, Current: census[p.Name],
		}
		if f.DisplayName == "" {
			f.DisplayName = p.Name
		}
		switch room := rooms[p.Name]; {
		case room.Lacks != "":
			f.Max = f.Current
		case room.Free >= 0:
			f.Max = f.Current + room.Free
		}
		out[p.Name] = f
	}
	return out
}

// runtimeOf says a time in the largest unit that says it exactly, and in whole minutes at the least.
func runtimeOf(d time.Duration) map[string]int {
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return map[string]int{}
	case d%day == 0:
		return map[string]int{"days": int(d / day)}
	case d%time.Hour == 0:
		return map[string]int{"hours": int(d / time.Hour)}
	default:
		return map[string]int{"minutes": max(1, int(d/time.Minute))}
	}
}

// mostUser is how much is read of what a Hub says of a user.
const mostUser = 1 << 20

// userFlavors answers with the flavors that are open to the user whom the request names. Where it names none these are
// what is everybody's.
func (o *Outpost) userFlavors(w http.ResponseWriter, r *http.Request, c spawner.Caller, _ startPath) (int, any, error) {
	var user struct {
		Name string `json:"name"`
	}
	_ = json.NewDecoder(http.MaxBytesReader(w, r.Body, mostUser)).Decode(&user)
	return http.StatusOK, o.flavors(c.Hub, o.offers.Of(c.Hub, spawner.User(user.Name)).Profiles), nil
}

// hubFlavors answers with the hub's flavors: of all that its users may choose, each from what is open to her.
func (o *Outpost) hubFlavors(_ http.ResponseWriter, _ *http.Request, c spawner.Caller, _ startPath) (int, any, error) {
	return http.StatusOK, o.Flavors(c.Hub), nil
}
