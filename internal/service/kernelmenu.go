package service

import (
	"slipway/images/records"
	"slipway/internal/agent/control"
	"slipway/internal/config"
	"slipway/internal/webui"
	"slipway/kernels/kernelspecs"
	"slipway/spawner"
)

// newMenu makes the menu of the kernels that users may start.
func (s *service) newMenu() *kernelspecs.Catalog {
	return kernelspecs.New(kernelspecs.Config{
		Kernels: s.cfg.Kernels, Stacks: s.cfg.Data.Stacks, Site: catalogueOf(s.cfg), Engine: s.workloads,
		Switches: s.switches, Principal: s.principal,
		Own: func(hub string, user spawner.User) ([]kernelspecs.Environment, error) {
			all, err := s.environments.Library().Records.List(s.principal(hub, user))
			return forKernels(all), err
		},
		Find: func(hub string, user spawner.User, ref string) (kernelspecs.Environment, error) {
			e, err := s.environments.LookAs(s.environments.Viewer(hub, user), hub, ref)
			if err == nil {
				err = e.RunsHere()
			}
			return forKernel(e), err
		},
		Stack: func(c config.Stack, w spawner.Workload) (control.Stack, bool) {
			if !s.offers(c, w) {
				return control.Stack{}, false
			}
			return s.stackOf(c, w), true
		},
		Words: webui.RoomOf, Logger: s.log,
	})
}

// forKernels returns of a user's own environments those in which her kernels can run. One whose name has moved on is
// not the one that it calls.
func forKernels(all []records.Environment) (list []kernelspecs.Environment) {
	for _, e := range all {
		if e.Name != "" && !e.Moved && e.RunsHere() == nil {
			list = append(list, forKernel(e))
		}
	}
	return list
}

func forKernel(e records.Environment) kernelspecs.Environment {
	return kernelspecs.Environment{Digest: e.Digest, Name: e.Name, Tag: e.Tag, Base: e.Base.Reference}
}
