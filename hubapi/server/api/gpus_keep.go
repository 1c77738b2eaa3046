package api

import (
	"context"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway/hubapi"
	"slipway/hubapi/server/audit"
	"slipway/hubapi/server/web"
	"slipway/internal/errs"
	"slipway/spawner"
)

// administers reports whether c may know of everybody's parts of the GPUs, and take GPUs out of use: administrators by
// themselves, and no program in a session of theirs.
func Administers(c spawner.Caller) bool {
	return c.System || c.Admin && !c.Spawner && c.Workload == ""
}

// keeping lets administrators take GPUs out of use and put them back. Its methods take the caller, so that no handler
// can forget who may.
type keeping struct{ keeper GPUKeeper }

func (s *GPUHandlers) keeping() keeping { return keeping{s.keeper} }

// may refuses whoever is no administrator, before anything is said of what there is.
func (k keeping) may(c spawner.Caller) error {
	switch {
	case !Administers(c):
		return errs.New(errs.Forbidden, "only administrators take GPUs out of use and put them back").
			With("use an administrator's own token, outside of sessions; `admin_users` of the hub in the configuration names them")
	case k.keeper == nil:
		return errs.New(errs.Missing, "this service has no GPUs").
			With("the administrator sets gpu.driver in the configuration")
	}
	return nil
}

func (k keeping) drain(ctx context.Context, c spawner.Caller, name, why string) (uuid string, err error) {
	if err := k.may(c); err != nil {
		return "", err
	}
	why = strings.TrimSpace(why)
	if err := checkWhy(why); err != nil {
		return "", err
	}
	if uuid, err = k.keeper.Drain(ctx, name, audit.CallerName(c), why); err == nil {
		d := audit.Of(ctx)
		d.What, d.Which = "an administrator has taken a GPU out of use", []any{"gpu", uuid, "for", why}
	}
	return uuid, err
}

func (k keeping) resume(ctx context.Context, c spawner.Caller, name string) (uuid, left string, err error) {
	if err := k.may(c); err != nil {
		return "", "", err
	}
	if uuid, left, err = k.keeper.Resume(ctx, name); err == nil {
		d := audit.Of(ctx)
		d.What, d.Which = "an administrator has put a GPU back", []any{"gpu", uuid, "left", left}
	}
	return uuid, left, err
}

// whyLimit is the most bytes of a reason: it is shown in a row of a table.
const whyLimit = 200

// checkWhy refuses what cannot be shown in one line.
func checkWhy(why string) error {
	if len(why) > whyLimit || !utf8.ValidString(why) || strings.ContainsFunc(why, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errs.Bad("why", why[:min(len(why), 40)], "one line of at most 200 bytes of text")
	}
	return nil
}

func (s *GPUHandlers) drainGPU(r *http.Request, req hubapi.DrainRequest) (hubapi.GPUChange, error) {
	name, err := web.Param(r, "gpu")
	if err != nil {
		return hubapi.GPUChange{}, err
	}
	c := web.CallerOf(r.Context())
	uuid, err := s.keeping().drain(r.Context(), c, name, req.Why)
	if err != nil {
		return hubapi.GPUChange{}, err
	}
	return hubapi.GPUChange{GPU: uuid, GPUs: s.wireGPUs(r, s.InventoryFor(c))}, nil
}

func (s *GPUHandlers) resumeGPU(r *http.Request, _ web.None) (hubapi.GPUChange, error) {
	name, err := web.Param(r, "gpu")
	if err != nil {
		return hubapi.GPUChange{}, err
	}
	c := web.CallerOf(r.Context())
	uuid, left, err := s.keeping().resume(r.Context(), c, name)
	if err != nil {
		return hubapi.GPUChange{}, err
	}
	return hubapi.GPUChange{GPU: uuid, Remark: left, GPUs: s.wireGPUs(r, s.InventoryFor(c))}, nil
}

// GPUKeeper takes GPUs out of use and puts them back, whoever asks. fleet.Fleet does.
type GPUKeeper interface {
	// Drain names the GPU that it has found by an index, a UUID or the beginning of one.
	Drain(ctx context.Context, name, by, why string) (uuid string, err error)
	// Resume likewise, and says what keeps the GPU out of use all the same.
	Resume(ctx context.Context, name string) (uuid, left string, err error)
}
