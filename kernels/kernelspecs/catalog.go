// Package kernelspecs makes the kernelspecs of a site's users: of what the configuration has of kernels, with their
// environments and the site's stacks, as they have switched them, and with how soon each would start.
//
// Promises: nobody is shown what is not for her, and what cannot be had just now is shown with the reason; who asks
// often costs little. The package must not start anything, nor know of requests; the engine refuses what the menu
// should not have shown.
package kernelspecs

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/agent/stack"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/units"
	"slipway/kernels"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

const (
	mostOwnKernels = 12              // kernelspecs that a user's own environments become of one entry
	ownEvery       = 2 * time.Second // how long it is believed what environments somebody has
	roomEvery      = time.Second     // and what is free
	logoEvery      = time.Minute     // and what a site's picture is
	mostAsked      = 10_000          // answers that are kept so
	pythonLanguage = "python"        //
	debuggerKey    = "debugger"      // what JupyterLab looks for to offer its debugger
	slipwayKey     = "slipway"       // what is this service's own in the metadata of a kernelspec
)

// Engine is what the menu asks engine.Manager.
type Engine interface {
	Offers(hub string, user spawner.User) catalog.Catalogue
	InGroup(r gpu.Request, hub string, user spawner.User) gpu.Request
	Room(backend string, r spawner.Resources, g gpu.Request) spawner.Room
	Kernels(c spawner.Caller) []spawner.Workload
	StandbysOf() map[string]spawner.Standbys
}

// Environment is one in which a kernel can run here.
type Environment struct {
	Digest    string
	Name, Tag string
	Base      string // the reference of the image on which it stands
}

// Config is what a menu is made of.
type Config struct {
	Kernels   config.Kernels
	Stacks    []config.Stack
	Site      catalog.Catalogue // with what is not for everybody
	Engine    Engine
	Switches  *Switches
	Principal func(hub string, user spawner.User) string
	// Own returns a user's own environments that have names, the newest first; Find one that she may use.
	Own  func(hub string, user spawner.User) ([]Environment, error)
	Find func(hub string, user spawner.User, ref string) (Environment, error)
	// Stack returns a stack as a session of a profile of hers has it, if it is for her.
	Stack func(s config.Stack, w spawner.Workload) (control.Stack, bool)
	// Words says how soon a session of a profile starts, as the spawn form has it.
	Words  func(c catalog.Catalogue, p catalog.Profile, r spawner.Room) string
	Logger *slog.Logger
}

// Catalog says which kernels a user may start. It is asked every some seconds by each browser that is open.
type Catalog struct {
	Config
	rooms *briefly[roomKey, spawner.Room]
	own   *briefly[string, []Environment] // by principals, and by what they mean by a reference
	logos *briefly[string, []kernels.Logo]
}

// New makes the menu of a site.
func New(cfg Config) *Catalog {
	return &Catalog{
		Config: cfg, rooms: newBriefly[roomKey, spawner.Room](roomEvery, mostAsked),
		own:   newBriefly[string, []Environment](ownEvery, mostAsked),
		logos: newBriefly[string, []kernels.Logo](logoEvery, mostAsked),
	}
}

// roomKey is what a start asks for of a backend.
type roomKey struct {
	backend string
	r       spawner.Resources
	g       gpu.Request
}

// offer is a kernelspec of somebody's, with what people are told of it.
type offer struct {
	kernels.Spec
	wire  hubapi.KernelSpec
	image string // of the profile's, by name
}

// guest is whoever asks, with what is hers.
type guest struct {
	spawner.Caller
	offers   catalog.Catalogue
	switched map[string]hubapi.KernelSwitch // by kernelspecs
	full     string                         // why she may have no kernel more; empty: she may
}

// Specs returns what a user may start, for the kernels.
func (m *Catalog) Specs(c spawner.Caller) []kernels.Spec {
	var list []kernels.Spec
	for _, o := range m.offered(c) {
		list = append(list, o.Spec)
	}
	return list
}

// offered returns what a user may start, and what may become hers to start: unknown is not no.
func (m *Catalog) offered(c spawner.Caller) (list []offer) {
	g := guest{c, m.Engine.Offers(c.Hub, c.User), m.Switches.of(m.Principal(c.Hub, c.User)), m.fullFor(c)}
	for _, k := range m.Kernels.Specs {
		refused := g.offers.Admits(k.Profile)
		if errs.Is(refused, errs.Forbidden) {
			continue
		}
		for _, v := range m.variants(g, k) {
			if o, err := m.offer(g, k, v, refused); err == nil {
				list = append(list, o)
			} else {
				m.Logger.Debug("a kernelspec is not shown", "name", v.name, "owner", c.User, "error", err)
			}
		}
	}
	return list
}

// fullFor says why a user may have no kernel more now; empty: she may.
func (m *Catalog) fullFor(c spawner.Caller) string {
	most := m.Kernels.MaxPerUser
	if most == 0 {
		return ""
	}
	has := 0
	for _, w := range m.Engine.Kernels(c) {
		if w.Phase.Active() {
			has++
		}
	}
	if has < most {
		return ""
	}
	return fmt.Sprintf("you have %d kernels, and may have %d at once: shut one down first", has, most)
}

// offer makes a kernelspec of a variant. One that is refused is shown all the same, with the reason.
func (m *Catalog) offer(g guest, k config.KernelSpec, v variant, refused error) (o offer, err error) {
	switched := g.switched[v.name]
	if found := m.switchedEnvironment(g, k, v, switched.Environment); found != nil {
		v.env, v.label = found, labelOf(*found)
	} else {
		switched.Environment = ""
	}
	image, err := m.imageOf(k, v)
	if err != nil {
		return o, err
	}
	usual, err := m.resolve(k, image, hubapi.KernelSwitch{})
	if err != nil {
		return o, err
	}
	spec := usual
	if switched != (hubapi.KernelSwitch{}) {
		if spec, err = m.resolve(k, image, switched); err != nil { // the site has changed what may be had
			switched, spec = hubapi.KernelSwitch{Environment: switched.Environment}, usual
		}
	}
	p := m.profile(k.Profile)
	o.image = image
	spec.Argv, spec.Interrupt, spec.Ready = k.Argv, k.Interrupt, ""
	spec.Life.Idle, spec.Life.FirstConnect, spec.Life.Connected = time.Duration(k.IdleLimit), 0, k.Connected
	o.Spec = kernels.Spec{
		Name: v.name, Entry: k.Name, Language: k.Language, Backend: p.Backend, Warm: k.MaxWarm, Refused: refused,
	}
	o.wire = hubapi.KernelSpec{
		Name: v.name, Profile: k.Profile, Backend: p.Backend, Environment: v.label, Resources: hubapi.Resources{
			GPU: spec.GPU.String(), CPUs: spec.Resources.CPUs, Memory: units.FormatMemory(spec.Resources.Memory),
		},
		IdleLimit: time.Duration(k.IdleLimit).String(), MaxCPUs: p.MostCPUs(),
		MaxMemory: units.FormatMemory(p.MostMemory()),
		GPUs:      choices(usual.GPU, k.GPUs), Switched: switched,
	}
	if v.env != nil {
		spec.Environment, o.wire.Digest = v.env.Digest, v.env.Digest
	}
	if v.stack != nil {
		spec.Argv, o.Language, o.wire.Stack = stack.Argv(control.JupyterDir, *v.stack), v.stack.Language, v.stack.Name
		spec.Env = maps.Clone(v.stack.Env)
	}
	o.Session, o.wire.Language = spec, o.Language
	o.wire.Available = m.available(g, p, spec, refused)
	o.DisplayName = displayName(k, o.wire, m.words(p, v, spec, o))
	o.wire.DisplayName = o.DisplayName
	o.Metadata, o.Logos = metadataOf(o.wire), m.logosOf(k, v, spec)
	return o, nil
}

// imageOf returns the name of the image of a kernelspec's kernels; empty: the profile's usual one.
func (m *Catalog) imageOf(k config.KernelSpec, v variant) (string, error) {
	if v.env == nil {
		return k.Image, nil
	}
	if image := m.imageUnder(k.Profile, *v.env); image != "" {
		return image, nil
	}
	return "", errs.New(
		errs.Invalid, "environment %s stands on the image %s, which profile %s does not offer", v.label, v.env.Base,
		k.Profile,
	)
}

// choices returns to what a slice can be switched, the usual one first.
func choices(usual gpu.Request, more []string) []string {
	list := []string{usual.String()}
	for _, word := range more {
		if r, err := gpu.ParseRequest(word); err == nil && !slices.Contains(list, r.String()) {
			list = append(list, r.String())
		}
	}
	return list
}

func (m *Catalog) profile(name string) (p catalog.Profile) {
	if i := slices.IndexFunc(m.Site.Profiles, func(p catalog.Profile) bool { return p.Name == name }); i >= 0 {
		p = m.Site.Profiles[i]
	}
	return p
}

// resolve makes the session of a kernel, with what is switched. To whom its profile is open was looked at before.
func (m *Catalog) resolve(k config.KernelSpec, image string, to hubapi.KernelSwitch) (spawner.Spec, error) {
	options := map[string]any{"profile": k.Profile, "image": image, "cpus": to.CPUs, "memory": to.Memory}
	if to.CPUs == "" && k.CPUs > 0 {
		options["cpus"] = k.CPUs
	}
	if to.Memory == "" && k.Memory > 0 {
		options["memory"] = units.FormatMemory(int64(k.Memory))
	}
	_, spec, err := m.Site.Resolve(options)
	if err != nil {
		return spec, err
	}
	p := m.profile(k.Profile)
	usual := p.GPU
	if k.GPU != "" {
		usual = sliceOn(p, k.GPU)
	}
	spec.GPU = usual
	if to.GPU != "" {
		spec.GPU = sliceOn(p, to.GPU)
		if all := choices(usual, k.GPUs); !slices.Contains(all, spec.GPU.String()) {
			return spec, notOffered(k.Name, to.GPU, all)
		}
	}
	return spec, nil
}

// notOffered is the error of who wants a slice that kernels of an entry cannot have.
func notOffered(entry, gpu string, all []string) error {
	e := errs.Bad("gpu", gpu, "one of "+strings.Join(all, ", ")+", or "+hubapi.SwitchDefault)
	e.Message += " for kernels of " + entry
	if len(all) < 2 {
		has := "always have " + all[0]
		if all[0] == "none" {
			has = "have no GPU"
		}
		e.Message += ", which " + has
		e.Remedy = "choose another kernelspec (`slipway kernels specs` lists them), or ask your administrator to offer slices there (kernels.specs[].gpus)"
	}
	return e
}

// sliceOn reads a slice that sessions of a profile are to have in place of their own. What cannot be read is no GPU.
func sliceOn(p catalog.Profile, word string) gpu.Request {
	r, err := gpu.ParseRequest(word)
	if err != nil {
		return gpu.Request{Mode: gpu.Mode(word)} // which is none of the choices
	}
	if !r.None() {
		r.Least, r.Model = p.GPU.Least, p.GPU.Model
	}
	return r
}
