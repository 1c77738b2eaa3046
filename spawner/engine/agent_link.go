package engine

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

// linkChange says that the link to a workload's agent has come up or gone down.
type linkChange struct {
	id spawner.ID
	up bool
}

// agentLinks are the links to the agents of workloads: they note what each says.
type agentLinks struct {
	*Records
	agents   Agents
	accounts accounts
	files    *jobfiles.Store
	changes  chan linkChange
}

// LinkChanged tells that the link to a workload's agent has come up or gone down.
func (l *agentLinks) LinkChanged(ctx context.Context, id spawner.ID, up bool) {
	select {
	case l.changes <- linkChange{id, up}:
	case <-ctx.Done():
	}
}

// follow attends to every agent whose link is up: attend is called for each, and its context ends when the link goes
// down or comes up anew. down is called for each that goes down.
func (l *agentLinks) follow(ctx context.Context, attend, down func(ctx context.Context, id spawner.ID)) {
	g, ctx := errgroup.WithContext(ctx)
	ends := map[spawner.ID]context.CancelFunc{}
	for {
		select {
		case <-ctx.Done():
			_ = g.Wait() // attend returns no error
			return
		case c := <-l.changes:
			if end := ends[c.id]; end != nil {
				end()
				delete(ends, c.id)
			}
			if !c.up {
				down(ctx, c.id)
				continue
			}
			own, end := context.WithCancel(ctx)
			ends[c.id] = end
			g.Go(func() error { attend(own, c.id); return nil })
		}
	}
}

// followAgent listens to an agent until its link goes down: its word on the app, and a job's output as it comes.
func (l *agentLinks) followAgent(ctx context.Context, id spawner.ID) {
	g, ctx := errgroup.WithContext(ctx)
	if follow := l.Kind(l.kindOf(id)).Follow; follow != nil {
		g.Go(func() error { follow(ctx, id); return nil })
	}
	g.Go(func() error {
		for ctx.Err() == nil {
			err := l.agents.Agent(id).Watch(ctx, func(s control.Status) error { l.hear(ctx, id, s); return nil })
			if ctx.Err() == nil {
				l.log.Debug("agent's watch ended", "id", id, "err", err)
				clock.Sleep(ctx, time.Second)
			}
		}
		return nil
	})
	_ = g.Wait() // the functions above return no error
}

// hear notes an agent's word. What comes late, when the link has gone down and ctx with it, would hide what a newer
// link says.
func (l *agentLinks) hear(ctx context.Context, id spawner.ID, s control.Status) {
	if then := l.noteWord(ctx, id, s); then != nil {
		then(ctx)
	}
}

func (l *agentLinks) noteWord(ctx context.Context, id spawner.ID, s control.Status) (then func(context.Context)) {
	tx := l.Begin()
	defer tx.End()
	if e := l.work[id]; e != nil && ctx.Err() == nil {
		e.Status, e.Pulse.Mute = s, time.Time{}
		if e.Remote && (e.Kind.Batch() || s.Leaving) && appOf(*e) == control.Exited && e.quit.IsZero() {
			e.quit = time.Now()
		}
		if heard := l.Kind(e.Kind).Heard; heard != nil {
			then = heard(tx, e, s)
		}
		tx.Announce(e)
		l.queue.Add(id)
	}
	return then
}

// linkSocket is where the service listens for an agent, in the link directory: the base of control.LinkSocket.
const linkSocket = "service.sock"

// kindOf returns the kind of a workload; empty: there is none.
func (r *Records) kindOf(id spawner.ID) spawner.Kind {
	v := r.View()
	defer v.End()
	if e := v.Entry(id); e != nil {
		return e.Kind
	}
	return ""
}

// How long fetching what an app left may be repeated: while somebody wants it, and when its owner has stopped it.
const (
	collectPatience = 5 * time.Minute
	partingPatience = 15 * time.Second
)

// Agent is one workload's agent, as control.Client speaks to it.
type Agent interface {
	Watch(ctx context.Context, each func(control.Status) error) error
	Launch(ctx context.Context, app control.App) error
	Put(ctx context.Context, name string, size int64, r io.Reader) error
	Log(ctx context.Context, from int64, follow bool) (io.ReadCloser, error)
	File(ctx context.Context, name string) (io.ReadCloser, int64, error)
	Activity(ctx context.Context) (control.Activity, error)
	Notify(ctx context.Context, text string) error
	// Changes returns what a session on another host has changed until now.
	Changes(ctx context.Context, r control.ChangesRequest) (io.ReadCloser, error)
	// End ends the app, and the agent after it. It returns when the app has ended.
	End(ctx context.Context) error
}

// Agents are the links to the agents of workloads. internal/tunnel has them; their owner calls Manager.LinkChanged.
type Agents interface {
	// Open listens at socket for the agent of id, which runs as uid. Opening twice is harmless.
	Open(id spawner.ID, socket string, uid int) error
	// Expect lets in the agent of id when it dials from another host, in place of Open. Expecting twice is harmless.
	Expect(id spawner.ID) error
	// Close ends the link and removes the socket.
	Close(id spawner.ID)
	// Agent returns the agent of id. Its methods fail while the link is down.
	Agent(id spawner.ID) Agent
}

// listen opens the door for the agent of a workload that may run and is not connected: after a restart of the service,
// and again when that did not work. It is harmless when the door is open.
func (l *agentLinks) listen(ctx context.Context, e Entry) {
	if e.Status.State != "" || (e.Phase != spawner.Starting && e.Phase != spawner.Booting && e.Phase != spawner.Running) {
		return
	}
	account, err := l.accounts.of(ctx, e)
	if err == nil {
		err = l.admitAgent(e, account)
	}
	if e.Phase == spawner.Starting && errs.Is(err, errs.NotFound) { // its start makes the place, and listens there
		return
	}
	if err != nil {
		l.log.Error("cannot listen for an agent", "id", e.ID, "err", err)
		l.queue.AddAfter(e.ID, retryAfter)
	}
}

// admitAgent opens the door for a workload's agent.
func (l *agentLinks) admitAgent(e Entry, account spawner.Account) error {
	if e.Remote {
		return l.agents.Expect(e.ID)
	}
	return l.agents.Open(e.ID, l.socket(e.ID), account.UID)
}

// socket is where the service listens for the agent of a workload.
func (l *agentLinks) socket(id spawner.ID) string {
	return filepath.Join(l.files.Dir(id), "link", linkSocket)
}

// appOf returns the agent's word as far as it concerns the current launch. An agent that has been given nothing yet is
// Idle.
func appOf(e Entry) control.State {
	if e.Status.State != control.Idle && e.Status.Launch != e.Run() {
		return ""
	}
	return e.Status.State
}

// AgentPatience is how long an agent may take to answer. It is the user's, so it may be mute.
const AgentPatience = 15 * time.Second

func (l *agentLinks) launchApp(ctx context.Context, id spawner.ID, app control.App) error {
	ctx, cancel := context.WithTimeout(ctx, AgentPatience)
	defer cancel()
	return l.agents.Agent(id).Launch(ctx, app)
}

// tellTime is how long telling the people in a session may take.
const tellTime = 5 * time.Second

// Tell shows a line to the people in a session, and in the events of any workload. That nobody is there is no error.
func (l *agentLinks) Tell(ctx context.Context, id spawner.ID, text string) {
	l.note(id, spawner.Event{Percent: -1, Message: text})
	if id.OfJob() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	if err := l.agents.Agent(id).Notify(ctx, text); err != nil {
		l.log.Debug("cannot tell a session", "id", id, "err", err)
	}
}

// Agent returns the agent of a workload.
func (l *agentLinks) Agent(id spawner.ID) Agent { return l.agents.Agent(id) }
