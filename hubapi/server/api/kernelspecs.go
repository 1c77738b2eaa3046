package api

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// KernelMenu says which kernels callers may start.
type KernelMenu interface {
	KernelSpecs(c spawner.Caller) ([]hubapi.KernelSpec, error)
	SwitchKernel(ctx context.Context, c spawner.Caller, name string, to hubapi.KernelSwitch) (hubapi.KernelSpec, error)
}

func (s *KernelHandlers) menuRoutes(r chi.Router) {
	r.Method("GET", "/kernelspecs", web.Serve(s.web, 200, s.listKernelSpecs))
	r.Method("POST", "/kernelspecs/{name}/switch", web.Serve(s.web, 200, audit.Told(s.switchKernel, auditSwitched)))
}

func noKernels() error {
	return errs.New(errs.Missing, "this service runs no single kernels").
		With("the administrator names some in kernels.specs of the configuration")
}

func (s *KernelHandlers) listKernelSpecs(r *http.Request, _ web.None) (hubapi.KernelSpecs, error) {
	if s.menu == nil {
		return hubapi.KernelSpecs{}, noKernels()
	}
	list, err := s.menu.KernelSpecs(web.CallerOf(r.Context()))
	return hubapi.KernelSpecs{KernelSpecs: list}, err
}

func (s *KernelHandlers) switchKernel(r *http.Request, to hubapi.KernelSwitch) (hubapi.KernelSpec, error) {
	name, err := web.Param(r, "name")
	switch {
	case err != nil:
		return hubapi.KernelSpec{}, err
	case s.menu == nil:
		return hubapi.KernelSpec{}, noKernels()
	case to == hubapi.KernelSwitch{}:
		return hubapi.KernelSpec{}, errs.Bad("gpu", "", "what the next kernels are to have: gpu, cpus, memory or environment, each a value or "+hubapi.SwitchDefault)
	}
	return s.menu.SwitchKernel(r.Context(), web.CallerOf(r.Context()), name, to)
}

func auditSwitched(_ *http.Request, _ hubapi.KernelSwitch, out hubapi.KernelSpec) (what string, which []any) {
	return "a user's next kernels are switched", []any{
		"kernelspec", out.Name, "gpu", out.GPU, "cpus", out.CPUs, "memory", out.Memory, "environment", out.Digest,
	}
}
