package spawner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// memory is a store in memory, with faults on demand. It outlives a Manager, as a disk does.
type memory struct {
	mu      sync.Mutex
	records map[string][]byte
	full    bool
}

func (s *memory) Put(_ context.Context, bucket, key string, value any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return errs.New(errs.NoSpace, "the disk is full")
	}
	b, err := json.Marshal(value)
	s.records[bucket+"/"+key] = b
	return err
}

func (s *memory) Delete(_ context.Context, bucket, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, bucket+"/"+key)
	return nil
}

func (s *memory) All(_ context.Context, bucket string) iter.Seq2[spawner.Record, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []spawner.Record
	for k, v := range s.records {
		all = append(all, spawner.Record{Key: strings.TrimPrefix(k, bucket+"/"), Value: v})
	}
	return func(yield func(spawner.Record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *memory) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	for _, v := range s.records {
		b.Write(v)
	}
	return b.String()
}

// crew plays the agents of all workloads. It outlives a Manager, as agents do.
type crew struct {
	mu      sync.Mutex
	agents  map[spawner.ID]*fakeAgent
	changed func(id spawner.ID, up bool)  // the Manager's LinkChanged
	boot    func(*fakeAgent, control.App) // what an app does when it is launched; nil: it is ready at once
}

func newCrew() *crew { return &crew{agents: map[spawner.ID]*fakeAgent{}} }

// fakeAgent plays one agent. Its fields are guarded by mu.
type fakeAgent struct {
	mu       sync.Mutex
	status   control.Status
	next     chan struct{} // closed at a change of status or log
	app      control.App
	launches int
	log      []byte
	files    map[string]string
	ended    bool
}

func (c *crew) Open(spawner.ID, string, int) error { return nil }
func (c *crew) Close(spawner.ID)                   {}

func (c *crew) Agent(id spawner.ID) spawner.Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.agents[id]; a != nil {
		return &visit{a, c}
	}
	return &visit{nil, c}
}

func (c *crew) get(id spawner.ID) *fakeAgent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agents[id]
}

// comeUp is the agent's start: it runs and dials.
func (c *crew) comeUp(l spawner.Launch) {
	c.mu.Lock()
	c.agents[l.ID] = &fakeAgent{status: control.Status{State: control.Idle}, next: make(chan struct{}), files: map[string]string{}}
	changed := c.changed
	c.mu.Unlock()
	changed(l.ID, true)
}

// redial lets all agents dial again, as they do when the service has come back.
func (c *crew) redial() {
	c.mu.Lock()
	changed, ids := c.changed, []spawner.ID{}
	for id := range c.agents {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	for _, id := range ids {
		changed(id, true)
	}
}

// goDown is the agent's end.
func (c *crew) goDown(id spawner.ID) {
	c.mu.Lock()
	delete(c.agents, id)
	changed := c.changed
	c.mu.Unlock()
	changed(id, false)
}

func (a *fakeAgent) set(edit func(*control.Status)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	edit(&a.status)
	a.status.Launch = a.app.Launch
	a.status.LogSize = int64(len(a.log))
	close(a.next)
	a.next = make(chan struct{})
}

func (a *fakeAgent) print(text string) {
	a.mu.Lock()
	a.log = append(a.log, text...)
	a.mu.Unlock()
	a.set(func(*control.Status) {})
}

// exit ends the app.
func (a *fakeAgent) exit(code int) {
	a.set(func(s *control.Status) {
		s.State, s.ExitCode = control.Exited, code
		for name, content := range a.files {
			s.Files = append(s.Files, control.File{Name: name, Size: int64(len(content))})
		}
	})
}

// visit is the service's side of an agent.
type visit struct {
	a *fakeAgent
	c *crew
}

func (v *visit) down() error {
	if v.a == nil {
		return errs.New(errs.Unavailable, "the link is down")
	}
	return nil
}

func (v *visit) Watch(ctx context.Context, each func(control.Status) error) error {
	if err := v.down(); err != nil {
		return err
	}
	for {
		v.a.mu.Lock()
		s, next := v.a.status, v.a.next
		v.a.mu.Unlock()
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

func (v *visit) Launch(_ context.Context, app control.App) error {
	if err := v.down(); err != nil {
		return err
	}
	v.a.mu.Lock()
	again := v.a.app.Launch == app.Launch
	v.a.app = app
	if !again {
		v.a.launches++
	}
	v.a.mu.Unlock()
	if again {
		return nil
	}
	v.a.set(func(s *control.Status) { s.State = control.Starting })
	if v.c.boot != nil {
		v.c.boot(v.a, app)
	} else {
		v.a.set(func(s *control.Status) { s.State = control.Ready })
	}
	return nil
}

func (v *visit) Put(_ context.Context, name string, size int64, r io.Reader) error {
	if err := v.down(); err != nil {
		return err
	}
	b, err := io.ReadAll(r)
	if int64(len(b)) != size {
		return fmt.Errorf("%d bytes of %d", len(b), size)
	}
	v.a.mu.Lock()
	defer v.a.mu.Unlock()
	v.a.files["in:"+name] = string(b)
	return err
}

func (v *visit) Log(ctx context.Context, from int64, follow bool) (io.ReadCloser, error) {
	if err := v.down(); err != nil {
		return nil, err
	}
	return io.NopCloser(&logReader{ctx: ctx, a: v.a, at: from, follow: follow}), nil
}

type logReader struct {
	ctx    context.Context
	a      *fakeAgent
	at     int64
	follow bool
}

func (r *logReader) Read(p []byte) (int, error) {
	for {
		r.a.mu.Lock()
		n := copy(p, r.a.log[min(r.at, int64(len(r.a.log))):])
		state, next := r.a.status.State, r.a.next
		r.a.mu.Unlock()
		r.at += int64(n)
		if n > 0 {
			return n, nil
		}
		if !r.follow || state == control.Exited {
			return 0, io.EOF
		}
		select {
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		case <-next:
		}
	}
}

func (v *visit) File(_ context.Context, name string) (io.ReadCloser, int64, error) {
	if err := v.down(); err != nil {
		return nil, 0, err
	}
	v.a.mu.Lock()
	defer v.a.mu.Unlock()
	content, ok := v.a.files[name]
	if !ok {
		return nil, 0, errs.New(errs.NotFound, "no file %s", name)
	}
	return io.NopCloser(strings.NewReader(content)), int64(len(content)), nil
}

func (v *visit) End(context.Context) error {
	if err := v.down(); err != nil {
		return err
	}
	v.a.ended = true
	return nil
}

// messages gives the texts of events.
func messages(events []spawner.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Message)
	}
	return slices.Clip(out)
}
