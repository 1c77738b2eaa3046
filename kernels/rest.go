package kernels

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
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

// running returns the caller's kernels that have not ended.
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

// restart has the kernel begin anew; what it leases stays its own. In the place of one that has ended another is
// started.
func (g *gateway) restart(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	k, err := g.find(r, c)
	if err == nil && over(k) {
		k, err = g.replace(r, c, k)
	} else if err == nil {
		k, err = g.change(r, c, Agent.RestartKernel)
	}
	if err == nil {
		writeJSON(w, http.StatusOK, g.model(r.Context(), k))
	}
	return err
}

// replace starts a kernel as one was that has ended: by the same id, with the same environment and for the same
// notebooks.
func (g *gateway) replace(r *http.Request, c spawner.Caller, old spawner.Workload) (spawner.Workload, error) {
	who, leave := g.guests.enter(c)
	defer leave()
	k, err := g.awaited(who, func() (spawner.Workload, bool, error) {
		k, err := g.startAgain(r.Context(), c, old)
		return k, true, err
	})
	if err != nil {
		return k, err
	}
	return g.settled(r.Context(), c, who, g.noted(r, k))
}

// startAgain waits until the kernel before is gone. Its kernelspec is looked at first: where it is not offered any more
// that kernel stays to say why it has ended.
func (g *gateway) startAgain(
	ctx context.Context, c spawner.Caller, old spawner.Workload,
) (k spawner.Workload, err error) {
	q := request{Name: old.Name, Env: maps.Clone(old.Spec.Env), Tied: old.Spec.Life.Away > 0}
	if s, err := g.wanted(c, q); err != nil || s.Refused != nil {
		return old, errors.Join(err, s.Refused)
	}
	if now, err := g.byID(c, old.Kernel); err == nil && !over(now) {
		return now, nil // two have asked for it
	} else if err == nil {
		if err := g.remove(ctx, c, now.ID); err != nil && !errs.Is(err, errs.NotFound) {
			return old, err
		}
	}
	if q.Env == nil {
		q.Env = map[string]string{}
	}
	q.Env[wire.IDVariable] = old.Kernel
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	for busy := newBackoff(); ; {
		k, _, err = g.launch(ctx, c, q)
		if !errs.Is(err, errs.Conflict) || !busy.Wait(ctx) {
			break
		}
	}
	for _, n := range old.Notebooks {
		if err == nil {
			k, err = g.Engine.Bind(ctx, c, k.ID, n)
		}
	}
	return k, err
}

func (g *gateway) change(
	r *http.Request, c spawner.Caller, do func(Agent, context.Context) error,
) (spawner.Workload, error) {
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
		err = errs.New(errs.Unavailable, "the kernel has not done it within %.0f s", changeTime.Seconds()).
			With("look whether it has by now; a kernel that hangs can be shut down")
	}
	return k, err
}
