//go:build linux

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/internal/store"
	"slipway/spawner"
)

// switchBucket is where the store keeps what users have switched, by their principals.
const switchBucket = "kernel-switches"

// kernelSwitches are what users have switched of their next kernels: by principal, by kernelspec. They stay until somebody switches back.
type kernelSwitches struct {
	records *store.Store
	mu      sync.Mutex
	known   map[string]map[string]hubapi.KernelSwitch
}

// recallSwitches gives what was switched before.
func recallSwitches(ctx context.Context, records *store.Store) (*kernelSwitches, error) {
	s := &kernelSwitches{records: records, known: map[string]map[string]hubapi.KernelSwitch{}}
	for r, err := range records.All(ctx, switchBucket) {
		var all map[string]hubapi.KernelSwitch
		if err == nil {
			err = json.Unmarshal(r.Value, &all)
		}
		if err != nil {
			return nil, fmt.Errorf("read what users have switched of their kernels: %w", err)
		}
		s.known[r.Key] = all
	}
	return s, nil
}

// of gives what somebody has switched. Nobody changes it.
func (s *kernelSwitches) of(principal string) map[string]hubapi.KernelSwitch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[principal]
}

// put keeps a switch of one kernelspec, and forgets those of kernelspecs that are not among names any more.
func (s *kernelSwitches) put(ctx context.Context, principal, name string, to hubapi.KernelSwitch, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]hubapi.KernelSwitch{}
	maps.Copy(all, s.known[principal])
	all[name] = to
	maps.DeleteFunc(all, func(n string, v hubapi.KernelSwitch) bool {
		return v == hubapi.KernelSwitch{} || !slices.Contains(names, n)
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
func (m *kernelMenu) KernelSpecs(c spawner.Caller) ([]hubapi.KernelSpec, error) {
	if err := mayHaveKernels(c); err != nil {
		return nil, err
	}
	list := []hubapi.KernelSpec{}
	for _, o := range m.offered(c) {
		list = append(list, o.wire)
	}
	return list, nil
}

// mayHaveKernels refuses callers whose kernels there cannot be.
func mayHaveKernels(c spawner.Caller) error {
	if c.User == "" || c.Spawner || c.Workload.OfJob() {
		return errs.New(errs.Forbidden, "kernels are their users', by a token or from a session")
	}
	return nil
}

// SwitchKernel keeps what a caller's next kernels of a kernelspec are to have, and gives the kernelspec as it is then.
func (m *kernelMenu) SwitchKernel(ctx context.Context, c spawner.Caller, name string, to hubapi.KernelSwitch) (hubapi.KernelSpec, error) {
	if err := mayHaveKernels(c); err != nil {
		return hubapi.KernelSpec{}, err
	}
	all := m.offered(c)
	o, err := m.meant(c, all, name, to)
	if err != nil {
		return hubapi.KernelSpec{}, err
	}
	next, err := m.switchedTo(o, to)
	if err != nil {
		return hubapi.KernelSpec{}, err
	}
	var names []string
	for _, other := range all {
		names = append(names, other.Name)
	}
	if err := m.switches.put(ctx, m.principal(c.Hub, c.User), o.Name, next, names); err != nil {
		return hubapi.KernelSpec{}, err
	}
	for _, now := range m.offered(c) {
		if now.Name == o.Name {
			return now.wire, nil
		}
	}
	return hubapi.KernelSpec{}, errs.New(errs.NotFound, "the kernelspec %s has gone meanwhile", o.Name)
}

// switchedTo gives what is switched of a kernelspec when that is asked for, in the words in which it is kept.
func (m *kernelMenu) switchedTo(o kernelOffer, to hubapi.KernelSwitch) (hubapi.KernelSwitch, error) {
	next := o.wire.Switched
	for _, part := range []struct {
		now *string
		to  string
	}{{&next.GPU, to.GPU}, {&next.CPUs, to.CPUs}, {&next.Memory, to.Memory}} {
		switch part.to {
		case "":
		case hubapi.SwitchDefault:
			*part.now = ""
		default:
			*part.now = part.to
		}
	}
	for _, k := range m.cfg.Kernels.Specs {
		if k.Name == o.entry {
			spec, err := m.resolve(k, o.image, next)
			if next.GPU != "" {
				next.GPU = spec.GPU.String()
			}
			if next.GPU == o.wire.GPUs[0] {
				next.GPU = ""
			}
			return next, err
		}
	}
	return next, errs.New(errs.NotFound, "there is no kernelspec %s", o.entry)
}

// meant finds the kernelspec of a name. hubapi.Self is that of the kernel that asks; elsewhere it is the only one that can be switched so.
func (m *kernelMenu) meant(c spawner.Caller, all []kernelOffer, name string, to hubapi.KernelSwitch) (kernelOffer, error) {
	if name == hubapi.Self {
		for _, w := range m.engine.Kernels(c) {
			if w.ID == c.Workload {
				name = w.Name
			}
		}
	}
	var names []string
	var fit []kernelOffer
	for _, o := range all {
		if o.Name == name {
			return o, nil
		}
		names = append(names, o.Name)
		if _, err := m.switchedTo(o, to); err == nil {
			fit = append(fit, o)
		}
	}
	switch {
	case len(all) == 0:
		return kernelOffer{}, errs.New(errs.NotFound, "there is no kernel for you").With("ask your administrator for one")
	case name != hubapi.Self:
		return kernelOffer{}, errs.New(errs.NotFound, "there is no kernelspec %.100q for you", name).With("one of " + strings.Join(names, ", "))
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) == 0:
		_, err := m.switchedTo(all[0], to)
		return kernelOffer{}, err
	}
	return kernelOffer{}, errs.New(errs.Invalid, "%d kernelspecs can be switched so", len(fit)).With("name one of them: " + strings.Join(names, ", "))
}
