// Package usage measures what sessions and jobs use of CPU, memory and GPU, how long the queue is, and what users keep on
// the disk, and remembers it for a week.
//
// Promises: what is not measured is null, never 0; what is remembered is bounded, see package timeseries; what was
// measured of a session or job goes when that goes. Agents are asked a few at a time, and one that does not answer keeps
// no other waiting. The package decides nothing, and must not: nothing but pictures depends on it.
package usage

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/gpu"
	"slipway/internal/timeseries"
	"slipway/spawner"
)

const (
	every     = 30 * time.Second // between two rounds
	diskEvery = 10 * time.Minute
	askTime   = 10 * time.Second // for one agent
	askAtOnce = 16
)

// Config is what a Meter needs.
type Config struct {
	Store timeseries.Store
	// Each has each look at all workloads, as the engine's method of that name.
	Each func(each func(w *spawner.Workload))
	// Heard returns what the agent of a workload said last to who asked for another reason; of the zero time: nothing.
	Heard func(id spawner.ID) Reading
	// Activity asks the agent of a workload.
	Activity func(ctx context.Context, id spawner.ID) (control.Activity, error)
	GPU      func(holder string) gpu.Use             // how much a workload uses of its slice
	Stored   func(o spawner.Principal) (bytes int64) // what a user's jobs keep on the disk
	Logger   *slog.Logger
}

// Meter measures. Its methods may be called at once; only Run asks anybody.
type Meter struct {
	cfg                    Config
	workloads, queue, disk *timeseries.DB

	mu   sync.Mutex // guards cpus
	cpus map[spawner.ID]launchReading
}

// Reading is what an agent said that its workload has used.
type Reading struct {
	At     time.Time
	CPU    float64 // seconds since the agent began
	Memory int64   // bytes; 0: it is not known
}

// launchReading is a reading of one launch of a workload.
type launchReading struct {
	launch string
	Reading
}

// The columns of workloads, and of the queue.
const (
	cpuColumn = iota
	memoryColumn
	gpuColumn
	gpuMemoryColumn
)

const (
	waitingColumn = iota
	jobsColumn
	sessionsColumn
	waitColumn
)

// queueName names the series of the queue.
const queueName = "all"

// Open returns a Meter with what is in the store.
func Open(ctx context.Context, cfg Config) (*Meter, error) {
	m := &Meter{cfg: cfg, cpus: map[spawner.ID]launchReading{}}
	highest := [timeseries.Columns]timeseries.Aggregate{timeseries.Max, timeseries.Max, timeseries.Max, timeseries.Max}
	for _, each := range []struct {
		into       **timeseries.DB
		bucket     string
		aggregates [timeseries.Columns]timeseries.Aggregate
		most       int
	}{
		{&m.workloads, "usage", [timeseries.Columns]timeseries.Aggregate{memoryColumn: timeseries.Max, gpuMemoryColumn: timeseries.Max}, 0},
		{&m.queue, "usage-queue", highest, 0},
		{&m.disk, "usage-disk", highest, timeseries.DefaultMost / 4},
	} {
		db, err := timeseries.Open(ctx, timeseries.Config{
			Store: cfg.Store, Bucket: each.bucket, Aggregates: each.aggregates, Most: each.most, Logger: cfg.Logger,
		})
		if err != nil {
			return nil, err
		}
		*each.into = db
	}
	return m, nil
}

// Run measures until ctx ends, and saves what it has measured.
func (m *Meter) Run(ctx context.Context) {
	var saving sync.WaitGroup
	for _, db := range []*timeseries.DB{m.workloads, m.queue, m.disk} {
		saving.Go(func() { db.Run(ctx) })
	}
	defer saving.Wait()
	disks, rounds := time.Time{}, time.NewTicker(every)
	defer rounds.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rounds.C:
		}
		seen := m.look()
		if time.Since(disks) >= diskEvery {
			disks = time.Now()
			m.lookAtDisks(seen.users)
			m.forget(seen.all)
		}
		m.ask(ctx, seen.running)
	}
}

// target is a workload that is to be measured.
type target struct {
	id     spawner.ID
	launch string
	slice  bool // it holds a part of a GPU
}

// workloads are those that there are in a round.
type workloads struct {
	all     map[string]bool            // by their ids
	users   map[spawner.Principal]bool // who have jobs
	running []target
}

// look counts who runs and who waits, and returns all that there are.
func (m *Meter) look() workloads {
	seen := workloads{all: map[string]bool{}, users: map[spawner.Principal]bool{}}
	v, now := timeseries.Values{}, time.Now()
	m.cfg.Each(func(w *spawner.Workload) {
		seen.all[string(w.ID)] = true
		if w.Kind.Batch() {
			seen.users[w.Principal()] = true
		}
		switch {
		case w.Phase == spawner.Running && w.Want == spawner.WantRunning:
			seen.running = append(seen.running, target{w.ID, w.Run(), w.Slice != nil})
			if w.Kind.Session() {
				v[sessionsColumn]++
			} else {
				v[jobsColumn]++
			}
		case Waits(w):
			v[waitingColumn]++
			v[waitColumn] = max(v[waitColumn], now.Sub(w.Since).Seconds())
		}
	})
	m.queue.Add(queueName, v)
	return seen
}

// Waits reports whether a workload waits for room, here or in a batch system.
func Waits(w *spawner.Workload) bool {
	return w.InQueue() || w.Remote && w.Phase == spawner.Starting && w.Want == spawner.WantRunning
}

// ask measures all that runs.
func (m *Meter) ask(ctx context.Context, running []target) {
	m.keepReadings(running)
	var g errgroup.Group
	g.SetLimit(askAtOnce)
	for _, t := range running {
		g.Go(func() error {
			m.workloads.Add(string(t.id), m.measure(ctx, t))
			return nil
		})
	}
	_ = g.Wait() // the functions above return no error
}

// keepReadings forgets those of what does not run any more.
func (m *Meter) keepReadings(running []target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.cpus
	m.cpus = make(map[spawner.ID]launchReading, len(running))
	for _, t := range running {
		if r, known := before[t.id]; known && r.launch == t.launch {
			m.cpus[t.id] = r
		}
	}
}

func (m *Meter) measure(ctx context.Context, t target) timeseries.Values {
	v := timeseries.Unmeasured()
	if t.slice {
		use := m.cfg.GPU(string(t.id))
		if use.SM != nil {
			v[gpuColumn] = *use.SM
		}
		if use.Memory != nil {
			v[gpuMemoryColumn] = float64(*use.Memory)
		}
	}
	r, err := m.read(ctx, t)
	if err != nil {
		m.cfg.Logger.Debug("an agent does not tell what is used", "id", t.id, "err", err)
		return v
	}
	if r.Memory > 0 {
		v[memoryColumn] = float64(r.Memory)
	}
	v[cpuColumn] = m.rate(t, r)
	return v
}

// read returns what the agent of a workload has said since the reading before, or says now.
func (m *Meter) read(ctx context.Context, t target) (Reading, error) {
	m.mu.Lock()
	before := m.cpus[t.id]
	m.mu.Unlock()
	if r := m.cfg.Heard(t.id); time.Since(r.At) < every && r.At.After(before.At) {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	a, err := m.cfg.Activity(ctx, t.id)
	return Reading{At: time.Now(), CPU: a.CPU, Memory: a.Memory}, err
}

// rate returns how many processors were used since the reading before.
func (m *Meter) rate(t target, r Reading) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.cpus[t.id]
	m.cpus[t.id] = launchReading{t.launch, r}
	elapsed := r.At.Sub(before.At).Seconds()
	if !known || elapsed <= 0 || r.CPU < before.CPU { // its agent has begun anew
		return math.NaN()
	}
	return (r.CPU - before.CPU) / elapsed
}

// lookAtDisks notes what each user keeps who has jobs.
func (m *Meter) lookAtDisks(users map[spawner.Principal]bool) {
	for o := range users {
		v := timeseries.Unmeasured()
		v[0] = float64(m.cfg.Stored(o))
		m.disk.Add(o.Key(), v)
	}
}

// forget drops what was measured of workloads that are gone.
func (m *Meter) forget(there map[string]bool) {
	for _, name := range m.workloads.Names() {
		if !there[name] {
			m.workloads.Remove(name)
		}
	}
}

// Of returns what a workload has used, the oldest first.
func (m *Meter) Of(id spawner.ID) (out []hubapi.UsagePoint) {
	for _, p := range m.workloads.Points(string(id), time.Time{}) {
		out = append(out, wire(p.At, p.Step, p.Values))
	}
	return out
}

// Now returns what a workload uses: what was measured of it in the last round or two.
func (m *Meter) Now(id spawner.ID) hubapi.UsagePoint {
	v, _ := m.workloads.Last(string(id), 3*every)
	return wire(time.Now(), every, v)
}

func wire(at time.Time, step time.Duration, v timeseries.Values) hubapi.UsagePoint {
	return hubapi.UsagePoint{
		At: at.UTC(), Seconds: int(step.Seconds()), CPU: known(v[cpuColumn]), Memory: bytes(v[memoryColumn]),
		GPU: known(v[gpuColumn]), GPUMemory: bytes(v[gpuMemoryColumn]),
	}
}

func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

func bytes(v float64) *int64 {
	if math.IsNaN(v) {
		return nil
	}
	n := int64(v)
	return &n
}

// Queue returns how long the queue was.
func (m *Meter) Queue() []hubapi.QueuePoint {
	out := []hubapi.QueuePoint{}
	for _, p := range m.queue.Points(queueName, time.Time{}) {
		count := func(column int) int { return int(p.Values[column]) }
		out = append(out, hubapi.QueuePoint{
			At: p.At, Seconds: int(p.Step.Seconds()), Waiting: count(waitingColumn), Jobs: count(jobsColumn),
			Sessions: count(sessionsColumn), Wait: count(waitColumn),
		})
	}
	return out
}

// Disk returns what the users of a hub have kept on the disk.
func (m *Meter) Disk(hub string) map[spawner.User][]hubapi.DiskPoint {
	out := map[spawner.User][]hubapi.DiskPoint{}
	for _, name := range m.disk.Names() {
		user, ok := strings.CutPrefix(name, spawner.Principal{Hub: hub}.Key())
		if !ok {
			continue
		}
		for _, p := range m.disk.Points(name, time.Time{}) {
			out[spawner.User(user)] = append(out[spawner.User(user)], hubapi.DiskPoint{At: p.At, Bytes: int64(p.Values[0])})
		}
	}
	return out
}
