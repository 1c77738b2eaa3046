package kernels

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

const (
	apiVersion = "2.14.0"         // of Jupyter Server's API
	changeTime = 35 * time.Second // for a restart
)

func (g *gateway) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": apiVersion})
}

// list leaves out what has ended: clients take what is not in it for ended.
func (g *gateway) list(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	writeJSON(w, http.StatusOK, g.models(r.Context(), g.running(c)))
	return nil
}

// running gives the caller's kernels that have not ended.
func (g *gateway) running(c spawner.Caller) []spawner.Workload {
	return slices.DeleteFunc(g.Engine.Kernels(c), over)
}

func (g *gateway) kernel(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	k, err := g.find(r, c)
	if err != nil {
		return err
	}
	if k.Phase != spawner.Running {
		g.Engine.Visit(k.ID, false) // somebody waits for it
	}
	writeJSON(w, http.StatusOK, g.model(r.Context(), k))
	return nil
}

func (g *gateway) shutdown(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	k, err := g.find(r, c)
	if err == nil {
		err = g.Engine.Remove(r.Context(), c, k.ID)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (g *gateway) interrupt(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	_, err := g.change(r, c, Agent.InterruptKernel)
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// restart has the kernel begin anew; what it leases stays its own.
func (g *gateway) restart(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	k, err := g.change(r, c, Agent.RestartKernel)
	if err == nil {
		writeJSON(w, http.StatusOK, g.model(r.Context(), k))
	}
	return err
}

func (g *gateway) change(r *http.Request, c spawner.Caller, do func(Agent, context.Context) error) (spawner.Workload, error) {
	k, err := g.find(r, c)
	switch {
	case err != nil:
		return k, err
	case over(k):
		return k, errs.New(errs.Conflict, "the kernel has ended: %s", whyOver(k))
	case k.Phase != spawner.Running:
		return k, errs.New(errs.Conflict, "the kernel is not up yet").With("try again when it is")
	}
	ctx, cancel := context.WithTimeout(r.Context(), changeTime)
	defer cancel()
	err = do(g.Agent(k.ID), ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errs.New(errs.Unavailable, "the kernel has not done it within %.0f s", changeTime.Seconds()).With("look whether it has by now; a kernel that hangs can be shut down")
	}
	return k, err
}
