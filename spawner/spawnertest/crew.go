package spawnertest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"slipway/internal/agent/control"
	"slipway/internal/ctxio"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
)

// Crew plays the agents of all workloads of a Fake: ComeUp and GoDown are its Config.Started and Config.Ended. It
// outlives a Manager, as agents do. It is safe for concurrent use, and in a synctest bubble.
type Crew struct {
	mu      sync.Mutex // guards the fields below
	hands   map[spawner.ID]*Hand
	cut     map[spawner.ID]bool // those that do not reach the service
	expects map[spawner.ID]bool // those that the service lets in from another host
	changed func(id spawner.ID, up bool)
	boot    func(*Hand)
	part    func(context.Context, *Hand) error
	leave   func(id spawner.ID, code int) // ends the workload of an agent that ends on another host
}

var _ engine.Agents = (*Crew)(nil)

// NewCrew makes a Crew whose apps are ready as soon as they are launched.
func NewCrew() *Crew {
	return &Crew{
		hands: map[spawner.ID]*Hand{}, cut: map[spawner.ID]bool{}, expects: map[spawner.ID]bool{}, changed: nobodyHears,
		boot: func(h *Hand) { h.Ready() }, part: func(_ context.Context, h *Hand) error { h.Part(); return nil },
	}
}

func nobodyHears(spawner.ID, bool) {}

// Boot makes every app do f when it is launched, in place of being ready at once.
func (c *Crew) Boot(f func(*Hand)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boot = f
}

// Parting makes every agent do f when it is asked to end, in place of Hand.Part at once.
func (c *Crew) Parting(f func(context.Context, *Hand) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part = f
}

// HangUp is the service's end: nobody listens any more, and the next service lets in from another host whom it expects
// itself.
func (c *Crew) HangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = nobodyHears
	clear(c.expects)
}

// reaches reports whether an agent has a way to the service. The caller holds mu.
func (c *Crew) reaches(id spawner.ID) bool {
	h := c.hands[id]
	return h != nil && !c.cut[id] && (h.leave == nil || c.expects[id])
}

// Dial makes all agents connect to a service, now and when they come up: changed is its Manager.LinkChanged.
func (c *Crew) Dial(changed func(id spawner.ID, up bool)) {
	c.mu.Lock()
	c.changed = changed
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(c.hands)), func(id spawner.ID) bool { return !c.reaches(id) })
	c.mu.Unlock()
	for _, id := range ids {
		changed(id, true)
	}
}

// onLeave says how agents on other hosts end the workload that they are in.
func (c *Crew) onLeave(leave func(id spawner.ID, code int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave = leave
}

// ComeUp is an agent's start: it runs and dials. One that has brought its app along from another host starts it.
func (c *Crew) ComeUp(l spawner.Launch) {
	c.mu.Lock()
	h := &Hand{crew: c, status: control.Status{State: control.Idle}, next: make(chan struct{}), inputs: map[string]string{}, files: map[string]string{},
		activity: control.Activity{Quiet: -1}, alone: l.App != nil}
	if l.Uplink != nil {
		h.leave = func(code int) {
			if c.Hand(l.ID) == h { // and not an agent of a later run
				c.leave(l.ID, code)
			}
		}
	}
	c.hands[l.ID] = h
	changed, up := c.changed, c.reaches(l.ID)
	c.mu.Unlock()
	if up {
		changed(l.ID, true)
	}
	if h.alone {
		_ = h.Launch(context.Background(), *l.App) // never fails
	}
}

// Cut takes an agent's way to the service away, also before it comes up; Join gives it back.
func (c *Crew) Cut(id spawner.ID) { c.reach(id, true) }

// Join gives it back.
func (c *Crew) Join(id spawner.ID) { c.reach(id, false) }

func (c *Crew) reach(id spawner.ID, cut bool) {
	c.mu.Lock()
	c.cut[id] = cut
	changed, is, up := c.changed, c.hands[id] != nil, c.reaches(id)
	c.mu.Unlock()
	if is {
		changed(id, up)
	}
}

// GoDown is an agent's end.
func (c *Crew) GoDown(id spawner.ID) {
	c.mu.Lock()
	delete(c.hands, id)
	changed := c.changed
	c.mu.Unlock()
	changed(id, false)
}

// Open listens for an agent; a Crew's need no socket.
func (c *Crew) Open(spawner.ID, string, int) error { return nil }

// Expect lets an agent in from another host, who is refused until then.
func (c *Crew) Expect(id spawner.ID) error {
	c.mu.Lock()
	before := c.reaches(id)
	c.expects[id] = true
	changed, up := c.changed, c.reaches(id)
	c.mu.Unlock()
	if up && !before {
		changed(id, true)
	}
	return nil
}

// Close ends listening.
func (c *Crew) Close(id spawner.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.expects, id)
}

// Agent returns the service's side of an agent. Its methods fail when there is none.
func (c *Crew) Agent(id spawner.ID) engine.Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaches(id) {
		return c.hands[id]
	}
	return nobody{}
}

// Hand returns one agent; nil when it is not up.
func (c *Crew) Hand(id spawner.ID) *Hand {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hands[id]
}

// Hand is one agent of a Crew, and what its app does.
type Hand struct {
	crew     *Crew
	mu       sync.Mutex // guards the fields below
	status   control.Status
	next     chan struct{} // closed at a change of status or log
	app      control.App
	launches int
	log      []byte
	inputs   map[string]string
	files    map[string]string
	activity control.Activity
	notices  []string
	changes  string         // what a session has changed
	frozen   bool           // it answers nothing, though it is connected
	alone    bool           // it has started its app by itself, and ends with it
	leave    func(code int) // ends its workload, on another host; nil: that is not its own to do
}

// App returns what was launched last.
func (h *Hand) App() control.App {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.app
}

// Launches tells how many different launches there were.
func (h *Hand) Launches() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.launches
}

// Input returns an input file that the service has sent.
func (h *Hand) Input(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inputs[name]
}

func (h *Hand) change(edit func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	edit()
	h.status.Launch = h.app.Launch
	h.status.LogSize = int64(len(h.log))
	close(h.next)
	h.next = make(chan struct{})
}

// Ready makes the app answer.
func (h *Hand) Ready() { h.change(func() { h.status.State = control.Ready }) }

// Tell has the payload say how far it is.
func (h *Hand) Tell(p control.Progress) { h.change(func() { h.status.Progress = &p }) }

// Starve has the kernel kill processes of the app for want of memory.
func (h *Hand) Starve(o control.OutOfMemory) { h.change(func() { h.status.OutOfMemory = &o }) }

// Print makes the app print.
func (h *Hand) Print(text string) { h.change(func() { h.log = append(h.log, text...) }) }

// Leave makes the app leave a file.
func (h *Hand) Leave(name, content string) { h.change(func() { h.files[name] = content }) }

// Change has a session change something outside its home.
func (h *Hand) Change(what string) { h.change(func() { h.changes += what }) }

// Exit ends the app, and the agent with it that has started it by itself.
func (h *Hand) Exit(code int) {
	h.change(func() {
		h.status.State, h.status.ExitCode = control.Exited, code
		for name, content := range h.files {
			h.status.Files = append(h.status.Files, control.File{Name: name, Size: int64(len(content))})
		}
	})
	if h.alone {
		h.leave(code)
	}
}

// Terminate has the agent's host ask it to end: it ends its app, tells that, and goes.
func (h *Hand) Terminate() {
	h.change(func() { h.status.State, h.status.ExitCode, h.status.Leaving = control.Exited, 143, true })
}

// Fault has the agent find the slice of its GPU bad instead of starting the app.
func (h *Hand) Fault(why string) {
	h.change(func() { h.status.State, h.status.ExitCode, h.status.Fault = control.Exited, 1, why })
}

// Watch tells each status.
func (h *Hand) Watch(ctx context.Context, each func(control.Status) error) error {
	for {
		h.mu.Lock()
		s, next := h.status, h.next
		h.mu.Unlock()
		if err := each(s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}

// Launch launches the app once. One that is to stand by is kept in mind.
func (h *Hand) Launch(_ context.Context, app control.App) error {
	switch now := h.App(); {
	case app.Standby:
		if now.Launch == "" {
			h.change(func() { h.app = app })
		}
		return nil
	case now.Launch == app.Launch && !now.Standby:
		return nil
	}
	h.change(func() { h.app, h.status.State, h.launches = app, control.Starting, h.launches+1 })
	h.crew.mu.Lock()
	boot := h.crew.boot
	h.crew.mu.Unlock()
	boot(h)
	return nil
}

// Put takes an input file.
func (h *Hand) Put(_ context.Context, name string, size int64, r io.Reader) error {
	b, err := io.ReadAll(r)
	if int64(len(b)) != size {
		return fmt.Errorf("%d bytes of %d", len(b), size)
	}
	h.change(func() { h.inputs[name] = string(b) })
	return err
}

// Log reads what was printed.
func (h *Hand) Log(ctx context.Context, from int64, follow bool) (io.ReadCloser, error) {
	return io.NopCloser(ctxio.Reader(ctx, (&logReader{h: h, at: from, follow: follow}).read)), nil
}

// Act sets what goes on in the session from now on. Before, nothing ever did and nobody could ask.
func (h *Hand) Act(a control.Activity) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.activity = a
}

// Freeze has the agent answer no more, or again, as one does whose host stands still. Its link stays up.
func (h *Hand) Freeze(frozen bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = frozen
}

// Activity tells what goes on in the session.
func (h *Hand) Activity(ctx context.Context) (control.Activity, error) {
	h.mu.Lock()
	activity, frozen := h.activity, h.frozen
	h.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return control.Activity{}, ctx.Err()
	}
	return activity, nil
}

// Notify keeps a notice.
func (h *Hand) Notify(_ context.Context, text string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = append(h.notices, text)
	return nil
}

// Changes returns what the session has changed.
func (h *Hand) Changes(context.Context, control.ChangesRequest) (io.ReadCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return io.NopCloser(strings.NewReader(h.changes)), nil
}

// End ends the app, and the agent, unless Parting says otherwise.
func (h *Hand) End(ctx context.Context) error {
	h.crew.mu.Lock()
	part := h.crew.part
	h.crew.mu.Unlock()
	return part(ctx, h)
}

// Part ends the app, and the agent: on another host, all that it leaves is back at once.
func (h *Hand) Part() {
	h.mu.Lock()
	ended := h.status.State == control.Exited
	h.mu.Unlock()
	if !ended {
		h.Exit(143)
	}
	if h.leave != nil && !h.alone {
		h.leave(0)
	}
}

// Notices returns all that the session was told, in order.
func (h *Hand) Notices() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.notices)
}

// logReader reads a log that may grow.
type logReader struct {
	h      *Hand
	at     int64
	follow bool
}

// read waits for more at the end of what there is.
func (r *logReader) read(ctx context.Context, p []byte) (int, error) {
	for {
		r.h.mu.Lock()
		n := copy(p, r.h.log[min(r.at, int64(len(r.h.log))):])
		state, next := r.h.status.State, r.h.next
		r.h.mu.Unlock()
		r.at += int64(n)
		switch {
		case n > 0:
			return n, nil
		case !r.follow || state == control.Exited:
			return 0, io.EOF
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-next:
		}
	}
}

// File reads a file that the app has left.
func (h *Hand) File(_ context.Context, name string) (io.ReadCloser, int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	content, ok := h.files[name]
	if !ok {
		return nil, 0, errs.New(errs.NotFound, "no file %s", name)
	}
	return io.NopCloser(strings.NewReader(content)), int64(len(content)), nil
}

// nobody is an agent whose link is down.
type nobody struct{}

func down() error { return errs.New(errs.Unavailable, "the link is down") }

func (nobody) Watch(context.Context, func(control.Status) error) error    { return down() }
func (nobody) Launch(context.Context, control.App) error                  { return down() }
func (nobody) Put(context.Context, string, int64, io.Reader) error        { return down() }
func (nobody) Log(context.Context, int64, bool) (io.ReadCloser, error)    { return nil, down() }
func (nobody) File(context.Context, string) (io.ReadCloser, int64, error) { return nil, 0, down() }
func (nobody) Activity(context.Context) (control.Activity, error)         { return control.Activity{}, down() }
func (nobody) Notify(context.Context, string) error                       { return down() }
func (nobody) End(context.Context) error                                  { return down() }
func (nobody) Changes(context.Context, control.ChangesRequest) (io.ReadCloser, error) {
	return nil, down()
}
