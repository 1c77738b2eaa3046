package kernelspecs

import (
	"slices"

	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/spawner"
)

// variant is one of the kernelspecs that an entry of the configuration stands for.
type variant struct {
	name  string
	env   *Environment
	label string // what the environment is called
	stack *control.Stack
}

// variants returns those that are for a user.
func (m *Catalog) variants(g guest, k config.KernelSpec) []variant {
	switch {
	case k.Environment != "":
		found := m.named(g, k.Environment)
		if len(found) == 0 {
			return nil // it is not there for her
		}
		return []variant{{name: k.Name, env: &found[0], label: k.Environment}}
	case k.Environments == config.EnvironmentsOwn:
		return m.ownVariants(g, k)
	case k.Stack != "" || len(k.Stacks) > 0:
		return m.stackVariants(g, k)
	}
	return []variant{{name: k.Name}}
}

// named returns the environment that a user means by a reference, if it is there for her and runs here.
func (m *Catalog) named(g guest, ref string) []Environment {
	return m.own.get(m.Principal(g.Hub, g.User)+"\x00"+ref, func() []Environment {
		e, err := m.Find(g.Hub, g.User, ref)
		if err != nil {
			return nil
		}
		return []Environment{e}
	})
}

// ownVariants returns one for each environment of a user's own that can be started as the entry says.
func (m *Catalog) ownVariants(g guest, k config.KernelSpec) (list []variant) {
	all := m.own.get(m.Principal(g.Hub, g.User), func() []Environment {
		all, err := m.Own(g.Hub, g.User)
		if err != nil {
			m.Logger.Warn("a user's environments cannot be listed for her kernels", "owner", g.User, "error", err)
		}
		return all
	})
	for i, e := range all {
		if m.imageUnder(k.Profile, e) == "" {
			continue
		}
		if list = append(list, variant{name: nameOfOwn(k.Name, e), env: &all[i], label: e.Name + ":" + e.Tag}); len(list) == mostOwnKernels {
			break
		}
	}
	return list
}

// stackVariants returns one for each of an entry's stacks that is for a user.
func (m *Catalog) stackVariants(g guest, k config.KernelSpec) (list []variant) {
	w := spawner.Workload{
		Kind: spawner.Kernel, Hub: g.Hub, Owner: g.User,
		Spec: spawner.Spec{SessionSpec: spawner.SessionSpec{Profile: k.Profile}},
	}
	for _, c := range m.Stacks {
		if c.Name != k.Stack && !slices.Contains(k.Stacks, c.Name) && !slices.Contains(k.Stacks, config.AllStacks) {
			continue
		}
		if s, hers := m.Stack(c, w); hers {
			name := k.Name
			if k.Stack == "" {
				name += "." + c.Name
			}
			list = append(list, variant{name: name, stack: &s})
		}
	}
	return list
}

// imageUnder returns the name of the image of a profile on which an environment stands; empty: the profile does not
// have it.
func (m *Catalog) imageUnder(profile string, e Environment) string {
	for _, p := range m.Site.Profiles {
		for _, name := range p.Images {
			if i, ok := m.Site.Image(name); ok && p.Name == profile && i.Ref == e.Base {
				return name
			}
		}
	}
	return ""
}
