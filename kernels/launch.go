package kernels

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/kernels/wire"
	"slipway/spawner"
)

const (
	// awayTime is how long a tied kernel may be without a client: a restart of the service, and of a session's Jupyter,
	// are shorter.
	awayTime = 5 * time.Minute
	// unknownTime is how long a kernel may be without its first client. Who has started it may never have been told its
	// id.
	unknownTime = 15 * time.Minute
)

// request is what a client says of a kernel that it wants. It may say more, which is for other servers.
type request struct {
	Name string            `json:"name"`
	Env  map[string]string `json:"env"`
	Tied bool              `json:"tied"` // it ends when its client stays away
}

func readRequest(w http.ResponseWriter, r *http.Request) (q request, err error) {
	// Without a body, or with one that names nothing, it is the default kernel, as with Jupyter Server.
	switch err := readBody(w, r, &q); {
	case err == nil || errors.Is(err, io.EOF):
	case errs.Is(err, errs.TooLarge):
		return q, err
	default:
		return q, errs.New(errs.Invalid, "the body is not what starts a kernel: %w", err).With(`send {"name": ..., "env": {...}}`)
	}
	return q, checkEnv(q.Env)
}

var kernelID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// id is the kernel's: the client may choose it, as with other gateways. Asking for the same one again gives the same
// kernel.
func (q request) id() (id string, given bool, err error) {
	id, given = q.Env[wire.IDVariable]
	switch {
	case !given:
		return wire.NewUUID(), false, nil
	case !kernelID.MatchString(id):
		return "", true, errs.Bad("env."+wire.IDVariable, errs.Shorten(id), "a UUID in lower case, or nothing")
	}
	return id, true, nil
}

// anyPython is what Jupyter's own client asks for where it was told no name, and for papermill whatever it was told.
const anyPython = "python3"

// wanted finds the kernelspec of a request. Who asks for any Python can name one in the environment, and gets the first
// otherwise.
func (g *gateway) wanted(c spawner.Caller, q request) (Spec, error) {
	s, err := g.specOf(c, q.Name)
	if err == nil || q.Name != anyPython {
		return s, err
	}
	if name := q.Env[wire.SpecVariable]; name != "" {
		return g.specOf(c, name)
	}
	for _, s := range g.Specs(c) {
		if s.Language == "python" {
			return s, nil
		}
	}
	return s, err
}

// start starts a kernel and answers when it is up, or when the client would not wait longer.
func (g *gateway) start(w http.ResponseWriter, r *http.Request, c spawner.Caller) error {
	q, err := readRequest(w, r)
	if err != nil {
		return err
	}
	who, leave := g.guests.enter(c)
	defer leave()
	k, err := g.awaited(who, func() (spawner.Workload, bool, error) { return g.launch(r.Context(), c, q) })
	if err != nil {
		return err
	}
	if k, err = g.settled(r.Context(), c, who, g.noted(r, k)); err != nil {
		return err
	}
	if _, given := q.Env[wire.IDVariable]; !given { // others may know an id that the client has chosen
		g.tickets.issue(k.Kernel, c)
	}
	w.Header().Set("Location", strings.TrimSuffix(r.URL.Path, "/")+"/"+k.Kernel)
	writeJSON(w, http.StatusCreated, g.model(r.Context(), k))
	return nil
}

// launch asks for a kernel. A fresh one was not there before: who asks holds naming.
func (g *gateway) launch(ctx context.Context, c spawner.Caller, q request) (k spawner.Workload, fresh bool, err error) {
	id, given, err := q.id()
	if err != nil {
		return k, false, err
	}
	s, err := g.wanted(c, q)
	if err == nil {
		err = s.Refused
	}
	if err != nil {
		return k, false, err
	}
	_, none := g.byID(c, id)
	k, err = g.Engine.StartKernel(ctx, c, spawner.KernelRequest{
		Name: s.Name, Spec: q.session(s, given), Backend: s.Backend, ID: id, Launch: launchOf(id), Entry: s.Entry,
		Warm: s.Warm,
	})
	return k, none != nil, err
}

// session is what a kernel is started with. What its kernelspec says of the environment stands above what the client
// says.
func (q request) session(of Spec, given bool) spawner.Spec {
	s := of.Session
	s.Env = map[string]string{}
	maps.Copy(s.Env, q.Env)
	maps.Copy(s.Env, of.Session.Env)
	switch {
	case q.Tied:
		s.Life.Away = awayTime
	case !given:
		s.Life.FirstClient = unknownTime
	}
	return s
}

// launchOf names the start of a kernel. Launches are to be seen where an id is not: in the queue of a batch system, for
// one.
func launchOf(id string) string {
	sum := sha256.Sum256([]byte("kernel " + id))
	return "kernel-" + hex.EncodeToString(sum[:16])
}

// awaited returns the kernel that find finds or starts, for a request that waits until it is settled. Of a user's
// requests one is here at a time: two do not start two kernels, and none finds one that is being given up.
func (g *gateway) awaited(
	who *guest, find func() (k spawner.Workload, fresh bool, err error),
) (spawner.Workload, error) {
	who.naming.Lock()
	defer who.naming.Unlock()
	k, fresh, err := find()
	if err == nil {
		g.guests.await(who, k.ID, fresh)
	}
	return k, err
}

// settled waits until a kernel is up. One of which nobody has heard is not left behind when all who waited for it have
// gone.
func (g *gateway) settled(
	ctx context.Context, c spawner.Caller, who *guest, k spawner.Workload,
) (spawner.Workload, error) {
	id := k.ID
	wait, cancel := context.WithTimeout(ctx, g.Patience)
	defer cancel()
	k, err := g.Engine.Await(
		wait, c, id, func(w spawner.Workload) bool { return w.Phase == spawner.Running || over(w) },
	)
	if ctx.Err() != nil {
		g.giveUp(ctx, c, who, id, k)
		return k, ctx.Err()
	}
	g.guests.tell(who, id)
	switch {
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return k, err
	case over(k):
		return k, errors.Join(
			errs.New(errs.Unavailable, "the kernel does not start: %s", whyOver(k)), g.remove(ctx, c, id),
		)
	}
	return k, nil
}

// giveUp has a request wait no more. A tied kernel's client asks again, or it ends for want of one.
func (g *gateway) giveUp(ctx context.Context, c spawner.Caller, who *guest, id spawner.ID, k spawner.Workload) {
	who.naming.Lock()
	defer who.naming.Unlock()
	if !g.guests.giveUp(who, id) || k.Spec.Life.Away > 0 {
		return
	}
	if err := g.remove(ctx, c, id); err != nil && !errs.Is(err, errs.NotFound) {
		g.Logger.Warn("a kernel for which nobody waits any more cannot be ended", "id", id, "error", err)
	}
}

// remove ends a kernel that the request does not name itself, also when its client has gone.
func (g *gateway) remove(ctx context.Context, c spawner.Caller, id spawner.ID) error {
	err := g.Engine.Remove(context.WithoutCancel(ctx), c, id)
	if err == nil && g.Tell != nil {
		g.Tell(ctx, Deed{Ended: id})
	}
	return err
}
