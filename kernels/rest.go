package kernels

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/spawner"
)

// What is borne of a client, and of an agent, which is a user's too.
const (
	bodyLimit    = 1 << 20
	bodyTime     = 30 * time.Second
	askTime      = 3 * time.Second  // for what a kernel does
	changeTime   = 35 * time.Second // for a restart
	apiVersion   = "2.14.0"         // of Jupyter Server's API
	askedAtOnce  = 16
	unknownState = "unknown"
)

func (g *gateway) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": apiVersion})
}

func (g *gateway) specs(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	all := g.Specs(c)
	body := struct {
		Default string               `json:"default"`
		Specs   map[string]specModel `json:"kernelspecs"`
	}{Specs: map[string]specModel{}}
	for i, s := range all {
		if i == 0 {
			body.Default = s.Name
		}
		body.Specs[s.Name] = modelOf(rootOf(r.URL.Path), s)
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (g *gateway) spec(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	s, err := g.specOf(c, chi.URLParam(r, "name"))
	if err == nil {
		writeJSON(w, http.StatusOK, modelOf(rootOf(r.URL.Path), s))
	}
	return err
}

// specOf finds a kernelspec by its name; none means the default.
func (g *gateway) specOf(c spawner.Caller, name string) (Spec, error) {
	var names []string
	for _, s := range g.Specs(c) {
		if s.Name == name || name == "" {
			return s, nil
		}
		names = append(names, s.Name)
	}
	err := errs.New(errs.NotFound, "there is no kernel called %q for you", shorten(name))
	if len(names) == 0 {
		return Spec{}, err.With("ask your administrator for one")
	}
	return Spec{}, err.With("choose one of " + strings.Join(names, ", "))
}

// anyPython is what Jupyter's own client asks for where it was told no name, and for papermill whatever it was told.
const anyPython = "python3"

// wanted finds the kernelspec of a request. Who asks for any Python can name one in the environment, and gets the first otherwise.
func (g *gateway) wanted(c spawner.Caller, q request) (Spec, error) {
	s, err := g.specOf(c, q.Name)
	if err == nil || q.Name != anyPython {
		return s, err
	}
	if name := q.Env["KERNEL_SPEC"]; name != "" {
		return g.specOf(c, name)
	}
	for _, s := range g.Specs(c) {
		if s.Language == "python" {
			return s, nil
		}
	}
	return s, err
}

// request is what a client says of a kernel that it wants. It may say more, which is for other servers.
type request struct {
	Name string            `json:"name"`
	Env  map[string]string `json:"env"`
	Tied bool              `json:"tied"` // it ends when its client stays away
}

func readRequest(w http.ResponseWriter, r *http.Request) (q request, err error) {
	if err := readBody(w, r, &q); err != nil {
		return q, errs.New(errs.Invalid, "the body is not what starts a kernel: %w", err).With(`send {"name": ..., "env": {...}}`)
	}
	return q, checkEnv(q.Env)
}

func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // not all connections have one
	defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }()
	return json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyLimit)).Decode(into)
}

// start starts a kernel and answers when it is up, or when the client would not wait longer.
func (g *gateway) start(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	q, err := readRequest(w, r)
	if err != nil {
		return err
	}
	k, err := g.launch(r.Context(), c, q)
	if err != nil {
		return err
	}
	if k, err = g.settled(r.Context(), c, g.noted(r, k), true); err != nil {
		return err
	}
	if _, given := q.Env["KERNEL_ID"]; !given { // others may know an id that the client has chosen
		g.tickets.issue(k.Kernel, c)
	}
	w.Header().Set("Location", strings.TrimSuffix(r.URL.Path, "/")+"/"+k.Kernel)
	writeJSON(w, http.StatusCreated, g.model(r.Context(), k))
	return nil
}

// launch asks for a kernel.
func (g *gateway) launch(ctx context.Context, c spawner.Caller, q request) (spawner.Workload, error) {
	s, err := g.wanted(c, q)
	if err == nil {
		err = s.Refused
	}
	if err != nil {
		return spawner.Workload{}, err
	}
	session := s.Session
	session.Env = map[string]string{}
	maps.Copy(session.Env, q.Env)
	maps.Copy(session.Env, s.Session.Env)
	id, err := q.id()
	if err != nil {
		return spawner.Workload{}, err
	}
	q.tie(&session)
	return g.Engine.StartKernel(ctx, c, spawner.KernelRequest{Name: s.Name, Spec: session, Backend: s.Backend, ID: id, Launch: launchOf(id), Warm: s.Warm})
}

// newID makes an id of the form in which clients look for it in paths: a UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// launchOf names the start of a kernel. Launches are to be seen where an id is not: in the queue of a batch system, for one.
func launchOf(id string) string {
	sum := sha256.Sum256([]byte("kernel " + id))
	return "kernel-" + hex.EncodeToString(sum[:16])
}

// settled waits until a kernel is up. One that this request has started, and of which nobody has heard, is not left behind.
func (g *gateway) settled(ctx context.Context, c spawner.Caller, k spawner.Workload, fresh bool) (spawner.Workload, error) {
	wait, cancel := context.WithTimeout(ctx, g.Patience)
	defer cancel()
	k, err := g.Engine.Await(wait, c, k.ID, func(w spawner.Workload) bool { return w.Phase == spawner.Running || over(w) })
	switch {
	case ctx.Err() != nil && (!fresh || k.Spec.Life.Away > 0): // its client asks again, or it ends for want of one
		return k, ctx.Err()
	case ctx.Err() != nil:
		return k, errors.Join(ctx.Err(), g.Engine.Remove(context.WithoutCancel(ctx), c, k.ID))
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return k, err
	case over(k):
		return k, errors.Join(errs.New(errs.Unavailable, "the kernel does not start: %s", whyOver(k)), g.Engine.Remove(ctx, c, k.ID))
	}
	return k, nil
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

// models asks the agents of several kernels.
func (g *gateway) models(ctx context.Context, all []spawner.Workload) []model {
	list := make([]model, len(all))
	room := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	for i, k := range all {
		asking.Go(func() {
			room <- struct{}{}
			list[i] = g.model(ctx, k)
			<-room
		})
	}
	asking.Wait()
	return list
}

func (g *gateway) kernel(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	k, err := g.find(r, c)
	if err == nil {
		writeJSON(w, http.StatusOK, g.model(r.Context(), k))
	}
	return err
}

// model asks a kernel's agent what the kernel does.
func (g *gateway) model(ctx context.Context, k spawner.Workload) model {
	m := model{ID: k.Kernel, Session: k.ID, Name: k.Name, State: "starting", Activity: wire.Stamp(k.Since)}
	switch {
	case over(k):
		m.State, m.Reason = "dead", whyOver(k)
		return m
	case k.Phase != spawner.Running:
		m.Progress = g.Engine.HowFar(spawner.Caller{System: true}, k.ID)
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := g.Agent(k.ID).Kernel(ctx)
	if err != nil {
		m.State = unknownState
		return m
	}
	m.State, m.Connections = string(s.State), s.Connections
	m.Activity = wire.Stamp(time.Now().Add(-time.Duration(s.Quiet * float64(time.Second))))
	return m
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
