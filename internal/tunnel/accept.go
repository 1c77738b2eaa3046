package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"slipway/internal/clock"
	"slipway/internal/errs"
)

const (
	// connections of one workload that have not said yet that they are its agent, or have only just said it
	greetedAtOnce = 4
	agentsKept    = 16 // processes of one workload that are remembered
	agentName     = 64 // bytes of what one calls itself
	frameHeader   = 16 // bytes that the library gathers before it writes: a burst does so anyway
)

// Upgrade makes the link of workload id of a request whose caller is known to be its agent, in place of an older one,
// and returns when it has ended. It returns an error only if it has answered nothing. Nothing that bounds requests
// bounds a link: its streams tell whether the peer is there.
func (l *Links) Upgrade(w http.ResponseWriter, r *http.Request, id string) error {
	k := l.find(id)
	if k == nil || k.visitors == nil {
		return errs.New(errs.Unavailable, "the agent of %s is not expected yet", id).With("it dials again")
	}
	agent := r.Header.Get(AgentHeader)
	if len(agent) > agentName {
		return errs.Bad(AgentHeader, "too long", "a name that tells this process from others")
	}
	if err := k.visitors.enter(agent); err != nil {
		return err
	}
	c, err := accept(w, r, l.pool)
	if err != nil {
		k.visitors.leave()
		k.owner.log.Info("connection dropped: no websocket", "workload", id, "from", r.RemoteAddr, "error", err)
		return nil
	}
	k.visit(r.Context(), agent, c)
	return nil
}

// visit greets a connection from another host and serves it.
func (k *link) visit(ctx context.Context, agent string, c net.Conn) {
	leave, ok := k.owner.tasks.Enter()
	if !ok {
		k.visitors.leave()
		_ = c.Close()
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	log := k.owner.log.With("workload", k.id, "from", c.RemoteAddr().String())
	m := k.meet(ctx, c, log)
	if !k.owner.tasks.Go(func(context.Context) { // a workload that connects in a loop gets no further than that
		clock.Sleep(k.ctx, pace)
		k.visitors.leave()
	}) {
		k.visitors.leave()
	}
	if m == nil {
		return
	}
	if k.visitors.took(agent) {
		log.Warn("a second agent has come with the same credential: it has the link now")
	}
	k.serve(ctx, m)
}

// visitors are who comes to a link from another host.
type visitors struct {
	mu     sync.Mutex
	inside int      // at most greetedAtOnce
	agents []string // that had the link; the last has it now, or had it last
}

// enter lets a connection in to be greeted.
func (v *visitors) enter(agent string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.Index(v.agents, agent); i >= 0 && i < len(v.agents)-1 {
		return errs.New(
			errs.Conflict, "another agent has come after this one with the same credential, and has the link",
		).With("end one of the two")
	}
	if v.inside >= greetedAtOnce {
		return errs.New(errs.OverQuota, "%d connections of this workload are being made", v.inside).
			With("wait a moment")
	}
	v.inside++
	return nil
}

func (v *visitors) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inside--
}

// took notes who has the link now, and says whether it was another's.
func (v *visitors) took(agent string) (another bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := len(v.agents); n > 0 && v.agents[n-1] == agent {
		return false
	}
	v.agents = append(v.agents[max(0, len(v.agents)-agentsKept+1):], agent)
	return len(v.agents) > 1
}

// accept makes a websocket of a request. When it fails it has answered.
func accept(w http.ResponseWriter, r *http.Request, pool *sync.Pool) (net.Conn, error) {
	c := &catcher{ResponseWriter: w, pool: pool}
	ws, err := websocket.Accept(c, r, nil)
	if err != nil {
		return nil, err
	}
	return newWire(ws, c.out, c.raw), nil
}

// catcher remembers the connection that is taken over.
type catcher struct {
	http.ResponseWriter
	pool *sync.Pool
	raw  net.Conn
	out  *burst
}

// Hijack takes the connection over and puts a burst below the websocket.
func (c *catcher) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.raw = conn
	if t, ok := conn.(*tls.Conn); ok {
		c.raw = t.NetConn()
	}
	c.out = &burst{to: conn, pool: c.pool}
	return conn, bufio.NewReadWriter(
		both.Reader, bufio.NewWriterSize(c.out, frameHeader),
	), errors.Join(both.Flush(), conn.SetDeadline(time.Time{}))
}
