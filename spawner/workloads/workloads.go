// Package workloads joins the engine with what is particular to sessions, jobs and kernels, and with what is told of
// all: together they answer for all that can be asked of workloads. It must not decide anything itself.
package workloads

import (
	"context"
	"io"
	"log/slog"
	"time"

	"slipway/internal/gpu"
	"slipway/spawner"
	"slipway/spawner/catalog"
	"slipway/spawner/engine"
	"slipway/spawner/inspect"
	"slipway/spawner/jobs"
	"slipway/spawner/kernelpool"
	"slipway/spawner/sessions"
)

// Config is what the parts need beside the engine. Each part's Config has the contract of a field.
type Config struct {
	Account     func(ctx context.Context, hub string, user spawner.User) (spawner.Account, error)
	Environment func(ctx context.Context, hub string, user spawner.User, ref string) (digest string, err error)
	Catalogue   catalog.Catalogue
	Member      func(hub string, user spawner.User, p catalog.Profile) (bool, error)
	Base        func(ctx context.Context, image string, tell func(string, int)) (digest string, err error)
	Keep        func(ctx context.Context, w spawner.Workload, changes io.Reader) (digest string, err error)
	Ailment     func(w spawner.Workload) (why, remedy string)
	Jobs        string // the backend of jobs whose submitter names none
	Admits      func(backend string, r spawner.Resources) bool
	Allowance   func(hub string, user spawner.User) (spawner.Allowance, bool)
	Retention   time.Duration // of jobs that have ended
	SliceUse    func(w spawner.Workload) *spawner.SliceUse
	Kernels     int // most of a user's at once
	Busy        func() bool
	Logger      *slog.Logger
}

// Engine is what whoever asks for workloads may have of the engine: what takes the caller, and refuses what is not
// theirs, and what tells nothing of anybody's workloads. What acts for nobody in particular is for those who have the
// engine.Manager itself.
type Engine interface {
	Get(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	List(ctx context.Context, c spawner.Caller) ([]spawner.Workload, error)
	Each(ctx context.Context, c spawner.Caller, scan string, each func(w *spawner.Workload)) error
	Await(
		ctx context.Context, c spawner.Caller, id spawner.ID, done func(spawner.Workload) bool,
	) (spawner.Workload, error)
	Stop(ctx context.Context, c spawner.Caller, id spawner.ID) (spawner.Workload, error)
	Remove(ctx context.Context, c spawner.Caller, id spawner.ID) error
	Launched(ctx context.Context, c spawner.Caller, launch string) (spawner.Workload, error)
	StopLaunch(ctx context.Context, c spawner.Caller, launch string) (spawner.Workload, error)
	Route(hub, path string) (spawner.ID, bool)
	InGroup(r gpu.Request, hub string, user spawner.User) gpu.Request
	Ready() error
	Forgot() bool
}

// Workloads answers for all workloads.
type Workloads struct {
	Engine
	*inspect.Inspector
	*sessions.Sessions
	*jobs.Jobs
	*kernelpool.Pool
}

// New joins an engine, which does not run yet, with its parts.
func New(ctx context.Context, e *engine.Manager, c Config) (Workloads, error) {
	s := sessions.New(e, sessions.Config{
		Account: c.Account, Environment: c.Environment, Catalogue: c.Catalogue, Member: c.Member, Base: c.Base,
		Keep: c.Keep, Ailment: c.Ailment, Logger: c.Logger,
	})
	j, err := jobs.New(ctx, e, jobs.Config{
		Account: c.Account, Environment: c.Environment, Backend: c.Jobs, Admits: c.Admits,
		Allowance: c.Allowance, Retention: c.Retention, SliceUse: c.SliceUse, Logger: c.Logger,
	})
	k := kernelpool.New(e, s, kernelpool.Config{Account: c.Account, PerUser: c.Kernels, Busy: c.Busy, Logger: c.Logger})
	return Workloads{e, inspect.New(e), s, j, k}, err
}

// List returns the workloads that the caller may see, oldest first. A service that has lost its records tells nobody
// but itself that there are none.
func (w Workloads) List(ctx context.Context, c spawner.Caller) ([]spawner.Workload, error) {
	list, err := w.Engine.List(ctx, c)
	if err == nil && len(list) == 0 && !c.System && w.Forgot() {
		err = w.Ready()
	}
	return list, err
}
