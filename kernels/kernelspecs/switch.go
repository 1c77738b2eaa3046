package kernelspecs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"slipway/hubapi"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/store"
	"slipway/spawner"
)

// switchBucket is where the store keeps what users have switched, by their principals.
const switchBucket = "kernel-switches"

// Switches are what users have switched of their next kernels: by principal, by kernelspec. They stay until somebody
// switches back.
type Switches struct {
	records *store.Store
	mu      sync.Mutex
	known   map[string]map[string]hubapi.KernelSwitch
}

// RecallSwitches returns what was switched before. Of a record that cannot be read its user's kernels are as usual.
func RecallSwitches(ctx context.Context, records *store.Store, log *slog.Logger) (*Switches, error) {
	s := &Switches{records: records, known: map[string]map[string]hubapi.KernelSwitch{}}
	for r, err := range records.All(ctx, switchBucket) {
		if err != nil {
			return nil, fmt.Errorf("read what users have switched of their kernels: %w", err)
		}
		var all map[string]hubapi.KernelSwitch
		if err := json.Unmarshal(r.Value, &all); err != nil {
			log.Warn(
				"what a user has switched of her kernels cannot be read, and is as usual", "principal", r.Key, "error",
				err,
			)
			continue
		}
		s.known[r.Key] = all
	}
	return s, nil
}

// of returns what somebody has switched. Nobody changes it.
func (s *Switches) of(principal string) map[string]hubapi.KernelSwitch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[principal]
}

// put keeps a switch of one kernelspec, and forgets those that cannot come back: of what the site has no more. Where
// there are too many those of kernelspecs that are not offered now go too.
func (s *Switches) put(
	ctx context.Context, principal, name string, to hubapi.KernelSwitch, keep func(name string, all int) bool,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]hubapi.KernelSwitch{}
	maps.Copy(all, s.known[principal])
	all[name] = to
	n := len(all)
	maps.DeleteFunc(all, func(other string, v hubapi.KernelSwitch) bool {
		return v == hubapi.KernelSwitch{} || other != name && !keep(other, n)
	})
	var err error
	if len(all) == 0 {
		err = s.records.Delete(ctx, switchBucket, principal)
	} else {
		err = s.records.Put(ctx, switchBucket, principal, all)
	}
	if err == nil {
		s.known[principal] = all
	}
	return err
}

// KernelSpecs lists what a caller may start.
func (m *Catalog) KernelSpecs(c spawner.Caller) ([]hubapi.KernelSpec, error) {
	if err := c.MayHaveKernels(); err != nil {
		return nil, err
	}
	list, standbys := []hubapi.KernelSpec{}, map[string]spawner.Standbys{}
	if c.Admin {
		standbys = m.Engine.StandbysOf()
	}
	for _, o := range m.offered(c) {
		if o.Warm > 0 && c.Admin {
			s := standbys[o.Entry]
			o.wire.Standbys = &hubapi.KernelStandbys{Most: o.Warm, Ready: s.Ready, Lacking: s.Lacking, Why: s.Why}
		}
		list = append(list, o.wire)
	}
	return list, nil
}

// SwitchKernel keeps what a caller's next kernels of a kernelspec are to have, and gives the kernelspec as it is then.
func (m *Catalog) SwitchKernel(
	ctx context.Context, c spawner.Caller, name string, to hubapi.KernelSwitch,
) (hubapi.KernelSpec, error) {
	if err := c.MayHaveKernels(); err != nil {
		return hubapi.KernelSpec{}, err
	}
	all := m.offered(c)
	o, err := m.meant(c, all, name, to)
	if err != nil {
		return hubapi.KernelSpec{}, err
	}
	next, err := m.switchedTo(c, o, to)
	if err != nil {
		return hubapi.KernelSpec{}, err
	}
	if err := m.Switches.put(ctx, m.Principal(c.Hub, c.User), o.Name, next, m.keeps(all)); err != nil {
		return hubapi.KernelSpec{}, err
	}
	for _, now := range m.offered(c) {
		if now.Name == o.Name {
			if now.wire.Available.State == hubapi.RoomWaits && m.isKernel(c) {
				now.wire.Available.Words += "; what this kernel gives back when it is shut down is not counted"
			}
			return now.wire, nil
		}
	}
	return hubapi.KernelSpec{}, errs.New(errs.NotFound, "the kernelspec %s has gone meanwhile", o.Name)
}

// isKernel reports whether it is a kernel that asks.
func (m *Catalog) isKernel(c spawner.Caller) bool {
	return slices.ContainsFunc(m.Engine.Kernels(c), func(w spawner.Workload) bool { return w.ID == c.Workload })
}

// mostSwitches is how many switches of a user's are kept of kernelspecs that she is not offered now: her environments
// come and go.
const mostSwitches = 100

// keeps says of which other kernelspecs a switch is kept: of those that the site has, also where it is not known just
// now what they stand for.
func (m *Catalog) keeps(offered []offer) func(name string, all int) bool {
	return func(name string, all int) bool {
		if slices.ContainsFunc(offered, func(o offer) bool { return o.Name == name }) {
			return true
		}
		return all <= mostSwitches && slices.ContainsFunc(m.Kernels.Specs, func(k config.KernelSpec) bool {
			return k.Name == name || strings.HasPrefix(name, k.Name+".")
		})
	}
}

// switchedTo returns what is switched of a kernelspec when that is asked for, in the words in which it is kept.
func (m *Catalog) switchedTo(c spawner.Caller, o offer, to hubapi.KernelSwitch) (hubapi.KernelSwitch, error) {
	next := o.wire.Switched
	for _, part := range []struct {
		now *string
		to  string
	}{{&next.GPU, to.GPU}, {&next.CPUs, to.CPUs}, {&next.Memory, to.Memory}, {&next.Environment, to.Environment}} {
		switch part.to {
		case "":
		case hubapi.SwitchDefault:
			*part.now = ""
		default:
			*part.now = part.to
		}
	}
	for _, k := range m.Kernels.Specs {
		if k.Name == o.Entry {
			image := o.image
			if to.Environment != "" && next.Environment != "" {
				e, err := m.environmentFor(c, k, o, next.Environment)
				if err != nil {
					return next, err
				}
				next.Environment, image = e.Digest, m.imageUnder(k.Profile, e)
			}
			spec, err := m.resolve(k, image, next)
			if next.GPU != "" {
				next.GPU = spec.GPU.String()
			}
			if next.GPU == o.wire.GPUs[0] {
				next.GPU = ""
			}
			return next, err
		}
	}
	return next, errs.New(errs.NotFound, "there is no kernelspec %s", o.Entry)
}

// environmentFor finds an environment in which a user's kernels of an entry can run.
func (m *Catalog) environmentFor(c spawner.Caller, k config.KernelSpec, o offer, ref string) (Environment, error) {
	if o.wire.Stack != "" {
		return Environment{}, errs.Bad(
			"environment", shortened(ref), "a kernelspec of no software stack: kernels of "+o.Name+" run "+o.wire.Stack,
		)
	}
	e, err := m.Find(c.Hub, c.User, ref)
	if err == nil {
		_, err = m.imageOf(k, variant{env: &e, label: labelOf(e)})
	}
	return e, err
}

// switchedEnvironment returns the environment to which a user has switched; nil: none, or it is not there for her any
// more.
func (m *Catalog) switchedEnvironment(g guest, k config.KernelSpec, v variant, digest string) *Environment {
	if digest == "" || v.stack != nil {
		return nil
	}
	if found := m.named(g, digest); len(found) > 0 && m.imageUnder(k.Profile, found[0]) != "" {
		return &found[0]
	}
	return nil
}

// labelOf calls an environment by its name, or by the beginning of its digest.
func labelOf(e Environment) string {
	if e.Name != "" {
		return e.Name + ":" + e.Tag
	}
	return shortened(e.Digest)
}

func shortened(s string) string { return s[:min(len(s), len("sha256:")+12)] }

// meant finds the kernelspec of a name. hubapi.Self is that of the kernel that asks; elsewhere it is the only one that
// can be switched so.
func (m *Catalog) meant(c spawner.Caller, all []offer, name string, to hubapi.KernelSwitch) (offer, error) {
	if name == hubapi.Self {
		for _, w := range m.Engine.Kernels(c) {
			if w.ID == c.Workload {
				name = w.Name
			}
		}
	}
	var names, fitting []string
	var fit []offer
	for _, o := range all {
		if o.Name == name {
			return o, nil
		}
		names = append(names, o.Name)
		if _, err := m.switchedTo(c, o, to); err == nil {
			fit, fitting = append(fit, o), append(fitting, o.Name)
		}
	}
	switch {
	case len(all) == 0:
		return offer{}, errs.New(errs.NotFound, "there is no kernel for you").With("ask your administrator for one")
	case name != hubapi.Self:
		return offer{}, errs.New(errs.NotFound, "there is no kernelspec %.100q for you", name).
			With("one of " + strings.Join(names, ", "))
	case len(fit) == 1:
		return fit[0], nil
	case len(all) == 1:
		_, err := m.switchedTo(c, all[0], to)
		return offer{}, err
	case len(fit) == 0:
		return offer{}, m.noneFits(c, all, to)
	}
	return offer{}, errs.New(errs.Invalid, "%d kernelspecs can be switched so", len(fit)).
		With("name one of them with --kernel: " + strings.Join(fitting, ", "))
}

// noneFits says of each kernelspec why it cannot be switched so.
func (m *Catalog) noneFits(c spawner.Caller, all []offer, to hubapi.KernelSwitch) error {
	var why []errs.Detail
	for _, o := range all {
		_, err := m.switchedTo(c, o, to)
		switch {
		case err == nil:
		case to.GPU != "" && len(o.wire.GPUs) == 1:
			why = append(why, errs.Detail{What: o.Name + " has " + o.wire.GPUs[0] + " alone"})
		default:
			why = append(why, errs.Detail{What: o.Name + ": " + err.Error()})
		}
	}
	return errs.New(errs.Invalid, "none of your %d kernelspecs can be switched so", len(all)).Naming(why).
		With("`slipway kernels specs` says to what each can be switched; what more is offered your administrator says (kernels.specs[].gpus, profiles[])")
}
