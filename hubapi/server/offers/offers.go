// Package offers says what a hub's users may start: the part of the catalogue that is open to each, and what of it
// there is room for now.
package offers

import (
	"fmt"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

// Engine is what the package needs of the engine, which has the contract of each method.
type Engine interface {
	Room(backend string, r spawner.Resources, g gpu.Request) spawner.Room
	InGroup(r gpu.Request, hub string, user spawner.User) gpu.Request
	Census(hub string, per func(spawner.Workload) string) map[string]int
}

// Config is what Offers need.
type Config struct {
	Engine    Engine
	Catalogue catalog.Catalogue
	// Open returns the part of it that is open to a hub's user, as the engine does. Nil: everything is everybody's.
	Open func(hub string, user spawner.User) catalog.Catalogue
}

// Offers are what there is to start.
type Offers struct{ cfg Config }

// New makes Offers.
func New(cfg Config) *Offers { return &Offers{cfg} }

// Of returns what is open to a hub's user.
func (o *Offers) Of(hub string, user spawner.User) catalog.Catalogue {
	if o.cfg.Open == nil {
		return o.cfg.Catalogue
	}
	return o.cfg.Open(hub, user)
}

// Rooms says of each of some profiles what there is for its usual size, for a user of a hub.
func (o *Offers) Rooms(hub string, user spawner.User, profiles []catalog.Profile) map[string]spawner.Room {
	rooms := map[string]spawner.Room{}
	for _, p := range profiles {
		rooms[p.Name] = o.cfg.Engine.Room(
			p.Backend, spawner.Resources{CPUs: p.CPUs, Memory: p.Memory, Pids: p.Pids},
			o.cfg.Engine.InGroup(p.GPU, hub, user),
		)
	}
	return rooms
}

// ActiveByImage counts a hub's active sessions by the names of their images.
func (o *Offers) ActiveByImage(hub string) map[string]int {
	byRef := o.cfg.Engine.Census(hub, func(w spawner.Workload) string { return w.Spec.Image })
	byName := map[string]int{}
	for _, i := range o.cfg.Catalogue.Images {
		byName[i.Name] = byRef[i.Ref]
	}
	return byName
}

// TakeFresh takes the one option out that is of a start and not of the session: whether kept changes are to be
// discarded.
func TakeFresh(options map[string]any) (bool, error) {
	value := options["fresh"]
	delete(options, "fresh")
	switch value {
	case nil, "", "no", false:
		return false, nil
	case "yes", true:
		return true, nil
	default:
		return false, errs.Bad("options.fresh", fmt.Sprintf("%.40v", value), "yes or no")
	}
}
