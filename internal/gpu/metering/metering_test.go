package metering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"slipway/internal/gpu"
)

const (
	gib  = int64(1) << 30
	uuid = "GPU-5368a050-0000-0000-0000-000000000000"
)

func h200() gpu.Device {
	return gpu.Device{
		UUID: uuid, Name: "NVIDIA H200", Memory: 141 * gib, SMs: 132, GPM: true, Slots: 8,
		Profiles: []gpu.Profile{
			{Name: "1g.18gb", Compute: 1, Memory: 16 * gib, SMs: 16}, {Name: "1g.18gb+me", Compute: 1, Memory: 16 * gib, SMs: 16},
			{Name: "1g.35gb", Compute: 1, Memory: 33 * gib, SMs: 26}, {Name: "2g.35gb", Compute: 2, Memory: 33 * gib, SMs: 32},
			{Name: "3g.71gb", Compute: 3, Memory: 71 * gib, SMs: 60}, {Name: "7g.141gb", Compute: 7, Memory: 140 * gib, SMs: 132},
		},
	}
}

// bench is a host with one GPU whose readings the test writes.
type bench struct {
	t *testing.T
	s *Sampler

	mu     sync.Mutex
	device gpu.Device
	mode   gpu.Mode
	next   gpu.Reading
	err    error
	gone   bool
	held   []gpu.Lease
	gis    map[string]int
	owners map[int]string
	blind  bool // nobody knows whose processes are
	reads  int
	hangs  chan bool // until it is closed nothing is read
}

func newBench(t *testing.T, mode gpu.Mode, held ...gpu.Lease) *bench {
	b := &bench{t: t, device: h200(), mode: mode, held: held, next: rest(), gis: map[string]int{}, owners: map[int]string{}}
	for i := range b.held {
		b.held[i].Slice.GPU, b.held[i].Slice.Mode, b.held[i].Since = uuid, mode, time.Now()
	}
	return b
}

// rest is a reading of a GPU on which nothing is.
func rest() gpu.Reading {
	return gpu.Reading{Utilisation: 0, SM: 0, MemoryUsed: 0, Energy: 0, Power: 70_000, Temperature: 30}
}

func (b *bench) run() {
	whose := func(pid int) string { b.mu.Lock(); defer b.mu.Unlock(); return b.owners[pid] }
	if b.blind {
		whose = nil
	}
	b.s = New(Config{
		Read: func(context.Context, string) (gpu.Reading, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.reads++
			if hangs := b.hangs; hangs != nil {
				b.mu.Unlock()
				<-hangs
				b.mu.Lock()
			}
			return b.next, b.err
		},
		Inventory: b.inventory, Whose: whose, Every: 10 * time.Second, IdleAfter: 10 * time.Minute, BusySM: 1, Keep: 3,
		Held:   func() []gpu.Lease { b.mu.Lock(); defer b.mu.Unlock(); return append([]gpu.Lease{}, b.held...) },
		Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error)
	go func() { done <- b.s.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
	synctest.Wait()
}

func (b *bench) inventory() gpu.Inventory {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return gpu.Inventory{}
	}
	state := gpu.State{Device: b.device, Mode: b.mode}
	for _, l := range b.held {
		slice := gpu.SliceState{Slice: l.Slice, Holder: l.Holder}
		if gi, ok := b.gis[l.Holder]; ok {
			slice.GI = &gi
		}
		state.Slices = append(state.Slices, slice)
	}
	return gpu.Inventory{GPUs: []gpu.State{state}}
}

// set changes what is there, under the lock.
func (b *bench) set(change func()) { b.mu.Lock(); change(); b.mu.Unlock() }

// wait lets time go by, and all that is due happen.
func (b *bench) wait(d time.Duration) { time.Sleep(d); synctest.Wait() }

func (b *bench) idle(holder, want string) {
	b.t.Helper()
	since, source, known := b.s.Idle(holder)
	got := string(source) + " busy"
	switch {
	case !known:
		got = string(source) + " unknown"
	case !since.IsZero():
		got = string(source) + " idle"
	}
	if got != want {
		b.t.Errorf("%s is %q, want %q", holder, got, want)
	}
	if use := b.s.Use(holder); (use.Idle != nil) != (known && !since.IsZero()) {
		b.t.Errorf("%s: Use says idle since %v, Idle since %v", holder, use.Idle, since)
	}
}

func show(u gpu.Use) string {
	text := fmt.Sprintf("%q", u.Source)
	if u.SM != nil {
		text += fmt.Sprintf(" sm %.4g%%", *u.SM)
	}
	if u.Memory != nil {
		text += " mem " + gigs(*u.Memory)
	}
	if u.Peak != nil {
		text += " peak " + gigs(*u.Peak)
	}
	if u.Energy != nil {
		text += fmt.Sprintf(" %.0f J", *u.Energy)
	}
	if u.Unknown != "" {
		text += " (" + u.Unknown + ")"
	}
	return text
}

func (b *bench) use(holder, want string) {
	b.t.Helper()
	if got := show(b.s.Use(holder)); got != want {
		b.t.Errorf("%s:\n got %s\nwant %s", holder, got, want)
	}
}

func lease(holder string, memory int64, sms int) gpu.Lease {
	return gpu.Lease{Holder: holder, Slice: gpu.Slice{Memory: memory, SMs: sms}}
}

func proc(pid int, memory int64, sm int) gpu.ProcessUse {
	return gpu.ProcessUse{PID: pid, Memory: memory, SM: sm, GI: -1, CI: -1}
}

func TestWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.Whole, lease("a", 141*gib, 132))
		b.next.Processes, b.next.SM, b.next.MemoryUsed = []gpu.ProcessUse{proc(7, 9*gib, 99)}, 99, 9*gib
		b.run()
		b.use("a", `"gpm" mem 9G peak 9G (the first figures after a start are not counted)`)
		b.idle("a", "gpm unknown")
		b.set(func() { b.next.SM, b.next.Energy = 40, 1_000_000 })
		b.wait(10 * time.Second)
		b.use("a", `"gpm" sm 40% mem 9G peak 9G 1000 J`)
		b.set(func() { b.next.SM, b.next.MemoryUsed, b.next.Energy = 20, 4*gib, 1_500_000 })
		b.wait(10 * time.Second)
		b.use("a", `"gpm" sm 30% mem 4G peak 9G 1500 J`)
		b.wait(2 * time.Minute)
		b.use("a", `"gpm" sm 20% mem 4G peak 9G 1500 J`)
		b.idle("a", "gpm busy")

		b.set(func() { b.next.SM, b.next.Utilisation = 0, 100 }) // a kernel of one thread
		b.wait(20 * time.Minute)
		b.idle("a", "gpm busy")
		b.set(func() { b.next.SM, b.next.Utilisation = 0.4, 0.9 })
		b.wait(10 * time.Minute)
		b.idle("a", "gpm busy")
		b.wait(10 * time.Second)
		b.idle("a", "gpm idle")

		b.set(func() { b.next.SM = -1 }) // no GPM, as before Hopper
		b.wait(10 * time.Second)
		b.idle("a", "utilisation idle")
		b.set(func() { b.next.Utilisation = -1 })
		b.wait(10 * time.Second)
		b.idle("a", "process-list unknown")
		b.use("a", `"process-list" mem 4G peak 9G 1500 J (the driver gives no utilisation of this GPU: only its processes and memory are seen)`)
		b.set(func() { b.next.Processes = nil })
		b.wait(10*time.Minute + 10*time.Second)
		b.idle("a", "process-list idle")
	})
}

func TestMIG(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.MIG, lease("a", 71*gib, 60), lease("b", 16*gib, 16), lease("c", 16*gib, 16))
		b.gis = map[string]int{"a": 0, "b": 9} // GI 0 is one as any other
		in := func(pid int, memory int64, gi int) gpu.ProcessUse {
			return gpu.ProcessUse{PID: pid, Memory: memory, SM: -1, GI: gi, CI: 0}
		}
		b.next = gpu.Reading{
			Utilisation: -1, SM: -1, MemoryUsed: 12 * gib, Energy: 0, Power: -1, Processes: []gpu.ProcessUse{in(1, 9*gib, 0), in(2, gib, 9)},
			Instances: map[int]gpu.InstanceUse{0: {SM: 50, MemoryUsed: 9 * gib}, 9: {SM: 0, MemoryUsed: gib}},
		}
		b.run()
		b.set(func() { b.next.Energy = 1_000_000 })
		b.wait(10 * time.Second) // 100 W is taken for the floor: there was no other yet
		b.use("a", `"gpm" sm 50% mem 9G peak 9G 455 J`)
		b.use("b", `"gpm" sm 0% mem 1G peak 1G 121 J`)
		b.use("c", `"" 121 J (its instance is not there)`)
		b.set(func() { b.next.Energy += 2_320_000 })
		b.wait(10 * time.Second) // 232 W: of the floor 1000 J, and 1320 J of work, which is a's alone
		b.use("a", `"gpm" sm 50% mem 9G peak 9G 2229 J`)
		b.use("b", `"gpm" sm 0% mem 1G peak 1G 242 J`)
		b.idle("b", "gpm busy")
		b.wait(10 * time.Minute)
		b.idle("a", "gpm busy")
		b.idle("b", "gpm idle")
		b.idle("c", " unknown")
	})
}

// An A100 cannot measure its instances: a slice with processes is neither idle nor busy.
func TestMIGWithoutGPM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.MIG, lease("a", 20*gib, 42))
		b.device.GPM, b.gis["a"] = false, 1
		b.next = gpu.Reading{
			Utilisation: -1, SM: -1, MemoryUsed: 2 * gib, Energy: -1, Power: 100_000,
			Processes: []gpu.ProcessUse{{PID: 1, Memory: 2 * gib, GI: 1, SM: -1}},
			Instances: map[int]gpu.InstanceUse{1: {SM: -1, MemoryUsed: -1}},
		}
		b.run()
		b.wait(30 * time.Minute)
		why := "MIG instances of GPUs before Hopper have no utilisation: only their processes and memory are seen"
		b.use("a", `"process-list" mem 2G peak 2G 57273 J (`+why+`)`) // 100 W for 1800 s, as the floor, of 42 in 132
		b.idle("a", "process-list unknown")
		b.set(func() { b.next.Processes = nil })
		b.wait(11 * time.Minute)
		b.idle("a", "process-list idle")
		b.set(func() { b.next.Processes = []gpu.ProcessUse{{PID: 2, Memory: gib, GI: 1, SM: -1}} })
		b.wait(10 * time.Second)
		b.idle("a", "process-list unknown")
	})
}

func TestManyOnOneGPU(t *testing.T) {
	for _, mode := range []gpu.Mode{gpu.MPS, gpu.Shared} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, mode, lease("a", 20*gib, 33), lease("b", 40*gib, 66), lease("c", 20*gib, 33))
				b.owners = map[int]string{1: "a", 2: "a", 3: "b"}
				b.next.SM, b.next.Utilisation, b.next.MemoryUsed = 90, 100, 50*gib // of the GPU: nobody's own
				b.next.Processes = []gpu.ProcessUse{proc(1, 5*gib, 20), proc(2, gib, 10), proc(3, 8*gib, 0), proc(4, 30*gib, 60)}
				b.run()
				b.wait(10 * time.Second)
				b.use("a", `"process" sm 30% mem 6G peak 6G 0 J`)
				b.use("b", `"process" sm 0% mem 8G peak 8G 0 J`)
				b.use("c", `"process" sm 0% mem 0M peak 0M 0 J`)
				b.set(func() { b.next.Energy = 900_000 })
				b.wait(10 * time.Second) // the floor was 0 W: all is work, and two thirds of it a stranger's
				b.use("a", `"process" sm 30% mem 6G peak 6G 300 J`)
				b.use("b", `"process" sm 0% mem 8G peak 8G 0 J`)
				b.wait(10 * time.Minute)
				b.idle("a", "process busy")
				b.idle("b", "process idle")
				b.idle("c", "process idle")
				b.set(func() { b.next.Processes[2].Memory = 9 * gib }) // b takes memory: it does something
				b.wait(10 * time.Second)
				b.idle("b", "process busy")
				b.set(func() { b.next.Processes[0].SM, b.next.Processes[0].Memory = -1, -1 })
				b.wait(10 * time.Second)
				b.idle("a", "process-list unknown")
				if u := b.s.Use("a"); u.SM != nil || u.Memory != nil || *u.Peak != 6*gib {
					t.Errorf("a part is not known, and the sum is %s", show(u))
				}
			})
		})
	}
}

// Under MPS the daemon's server may be the one whose work is seen, and all its clients seem to rest.
func TestServerHasTheWork(t *testing.T) {
	for mode, want := range map[gpu.Mode]string{gpu.MPS: "process-list unknown", gpu.Shared: "process idle"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, mode, lease("a", 20*gib, 33), lease("b", 20*gib, 33))
			b.owners = map[int]string{1: "a", 2: "b"}
			b.next.SM, b.next.Utilisation = 70, 90
			b.next.Processes = []gpu.ProcessUse{proc(1, gib, 0), proc(2, gib, 0), proc(3, 0, 70)}
			b.run()
			b.wait(11 * time.Minute)
			b.idle("a", want)
			b.set(func() { b.next.Processes[1].SM, b.next.Processes[2].SM = 70, 0 })
			b.wait(11 * time.Minute)
			b.idle("a", "process idle")
			b.set(func() { b.next.Processes[1].SM = 0 }) // somebody works who is not listed
			b.wait(time.Minute)
			b.idle("a", "process-list unknown")
		})
	}
}

func TestNobodyKnowsWhose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.Shared, lease("a", 20*gib, 132))
		b.blind = true
		b.run()
		b.wait(time.Hour)
		b.idle("a", " unknown")
		b.use("a", `"" 0 J (several workloads are on this GPU, and nobody can tell whose a process is)`)
	})
}

// What a borrower does is not the owner's, whose kernel may be there still.
func TestLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.Whole, lease("a", 141*gib, 132))
		b.owners = map[int]string{1: "a", 2: "job"}
		b.next.Processes, b.next.MemoryUsed = []gpu.ProcessUse{proc(1, 2*gib, 0)}, 2*gib+300<<20
		b.run()
		b.wait(11 * time.Minute)
		b.idle("a", "gpm idle")
		began, _, _ := b.s.Idle("a")
		b.set(func() {
			b.held[0].Lent = "job"
			b.next.Processes = append(b.next.Processes, proc(2, 60*gib, 95))
			b.next.SM, b.next.MemoryUsed = 95, 62*gib
		})
		b.wait(10 * time.Second)
		b.set(func() { b.next.Energy = 5_000_000 })
		b.wait(10 * time.Second)
		b.idle("a", "process idle")
		b.use("a", `"process" sm 0% mem 2G peak 2G 0 J`)
		b.use("job", `"gpm" sm 95% mem 62G peak 62G 5000 J`)
		if since, _, _ := b.s.Idle("a"); !since.Equal(began) {
			t.Errorf("to lend the slice is no work of its owner's: idle since %v, before %v", since, began)
		}
		b.set(func() { b.next.Processes[0].SM = 30 })
		b.wait(10 * time.Second)
		b.idle("a", "process busy")
		session := b.held[0]
		b.set(func() { b.held[0] = gpu.Lease{Holder: "job", Slice: session.Slice, Since: time.Now(), As: "a"} }) // the owner leaves
		b.wait(10 * time.Second)
		b.use("job", `"gpm" sm 95% mem 62G peak 62G 5000 J`)
		b.set(func() { b.held[0] = session; b.held[0].Lent = "" })
		b.wait(10 * time.Second)
		if u := b.s.Use("job"); u.Unknown != "it has been released" || *u.Peak != 62*gib {
			t.Errorf("the borrower is gone: %s", show(u))
		}
	})
}

func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.Whole, lease("a", 141*gib, 132))
		b.next.Processes, b.next.MemoryUsed = []gpu.ProcessUse{proc(1, gib, 0)}, gib
		b.run()
		for range 6 {
			b.wait(9 * time.Minute)
			b.set(func() { b.next.SM = 80 })
			b.wait(10 * time.Second)
			b.idle("a", "gpm busy")
			b.set(func() { b.next.SM = 0 })
		}
		b.wait(11 * time.Minute)
		b.idle("a", "gpm idle")
		b.set(func() { b.err = errors.New("asked too often") }) // one reading is missing: nobody knows, and then all is as it was
		b.wait(10 * time.Second)
		b.idle("a", " unknown")
		b.set(func() { b.err = nil })
		b.wait(20 * time.Second)
		b.idle("a", "gpm idle")
		b.set(func() { b.next.MemoryUsed += 1 << 20 })
		b.wait(10 * time.Second)
		b.idle("a", "gpm idle") // less than an allocation
		b.set(func() { b.next.MemoryUsed += 4 << 20 })
		b.wait(10 * time.Second)
		b.idle("a", "gpm busy")
	})
}

func TestLostGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.Whole, lease("a", 141*gib, 132))
		b.run()
		b.wait(11 * time.Minute)
		b.idle("a", "gpm idle")
		if _, _, ok := b.s.Reading(uuid); !ok {
			t.Error("no reading")
		}
		b.set(func() { b.err = gpu.ErrLost })
		b.wait(time.Minute)
		b.idle("a", " unknown")
		b.use("a", `"" peak 0M 0 J (its GPU could not be read: the GPU is lost)`)
		if _, _, ok := b.s.Reading(uuid); ok {
			t.Error("a lost GPU has a reading")
		}
		b.set(func() { b.gone = true })
		b.wait(time.Minute)
		b.use("a", `"" peak 0M 0 J (its GPU is not there any more)`)
		if len(b.s.gpus) != 0 {
			t.Error("a GPU that is gone is remembered")
		}
		b.set(func() { b.gone, b.err, b.next.SM, b.next.Energy = false, nil, 99, 5 })
		b.wait(10 * time.Second)
		b.use("a", `"gpm" mem 0M peak 0M 0 J (the first figures after a start are not counted)`)
		b.wait(10 * time.Second)
		b.use("a", `"gpm" sm 99% mem 0M peak 0M 0 J`)
	})
}

// A stall of the sampler, as of a host that slept: nothing is known of the time between.
func TestStall(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	still := sample{sm: 0, busiest: 0, memory: gib, processes: 1, source: gpu.SourceGPM, scope: ofDevice}
	for name, step := range map[string]time.Duration{"a day later": 24 * time.Hour, "an hour back": -time.Hour} {
		var w watch
		r := newRecord(gpu.Lease{}, h200())
		cfg := Config{BusySM: 1, IdleAfter: 10 * time.Minute}
		now := at
		for range 100 {
			w.note(now, still, 1, 35*time.Second)
			r.observe(now, at.Add(-2*time.Hour), still, cfg, 35*time.Second)
			now = now.Add(10 * time.Second)
		}
		if since, known := w.idle(now, 10*time.Minute, 35*time.Second); !known || !since.Equal(at) {
			t.Errorf("%s: idle since %v, %v", name, since, known)
		}
		measured := r.measured
		now = now.Add(step)
		w.note(now, still, 1, 35*time.Second)
		r.observe(now, at.Add(-2*time.Hour), still, cfg, 35*time.Second)
		if since, known := w.idle(now, 10*time.Minute, 35*time.Second); !known || !since.IsZero() {
			t.Errorf("%s: idle since %v, %v", name, since, known)
		}
		if r.measured != measured || len(r.recent) != 1 {
			t.Errorf("%s: measured %v, before %v, of %d figures", name, r.measured, measured, len(r.recent))
		}
	}
	var m meter
	m.take(gpu.Reading{Energy: 5000}, at, time.Minute)
	for name, next := range map[string]struct {
		energy int64
		at     time.Time
	}{
		"the counter began anew": {10, at.Add(time.Second)}, "back in time": {9000, at.Add(-time.Second)}, "a day later": {9000, at.Add(24 * time.Hour)},
	} {
		if c := m; true {
			if j, _, ok := c.take(gpu.Reading{Energy: next.energy, Power: -1}, next.at, time.Minute); ok {
				t.Errorf("%s: %v J", name, j)
			}
		}
	}
}

func TestStaleUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.Whole, lease("a", 141*gib, 132))
		b.run()
		b.wait(11 * time.Minute)
		b.set(func() { b.hangs = make(chan bool) })
		b.wait(time.Minute)
		b.idle("a", "gpm unknown")
		b.use("a", `"" peak 0M 0 J (the last measurement is too old)`)
		close(b.hangs)
		b.wait(10 * time.Second)
		b.idle("a", "gpm busy")
	})
}

func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.MIG, lease("a", 71*gib, 60))
		b.gis["a"] = 2
		b.next.Instances = map[int]gpu.InstanceUse{2: {SM: 30, MemoryUsed: 9 * gib}}
		b.run()
		b.wait(59 * time.Minute)
		if u := b.s.Use("a"); u.Hint != "" {
			t.Errorf("too early: %q", u.Hint)
		}
		b.wait(2 * time.Minute)
		if u := b.s.Use("a"); u.Hint != "held 71G, used at most 9G: 1g.18gb would do" {
			t.Errorf("hint %q", u.Hint)
		}
		b.set(func() { b.held = nil })
		b.wait(10 * time.Second)
		u := b.s.Use("a")
		if u.SM != nil || u.Memory != nil || *u.Peak != 9*gib || u.Hint == "" || u.Unknown != "it has been released" {
			t.Errorf("after release: %+v", u)
		}
		if len(b.s.Series("a")) == 0 {
			t.Error("the history went with the lease")
		}
		b.idle("a", " unknown")

		b.set(func() {
			b.held = []gpu.Lease{lease("a", 16*gib, 16)}
			b.held[0].Slice.GPU, b.held[0].Slice.Mode = uuid, gpu.MIG
		})
		b.wait(10 * time.Second)
		if u := b.s.Use("a"); u.Peak != nil && *u.Peak == 0 || u.Hint != "" {
			t.Errorf("another lease begins with %s, %q", show(u), u.Hint)
		}
		for i := range 6 {
			b.set(func() { b.held[0].Holder = fmt.Sprint("short", i); b.gis[b.held[0].Holder] = 2 })
			b.wait(20 * time.Second)
		}
		if n := len(b.s.records); n != 1+3 {
			t.Errorf("%d records: more than are held and kept", n)
		}
		b.set(func() { b.held = nil })
		b.wait(25 * time.Hour)
		if n := len(b.s.records); n != 0 {
			t.Errorf("%d records a day later", n)
		}
		b.use("a", `"" (there is no measurement of it yet)`)
	})
}

func TestHints(t *testing.T) {
	slice := func(mode gpu.Mode, memory int64) gpu.Slice { return gpu.Slice{Mode: mode, Memory: memory} }
	for _, c := range []struct {
		slice gpu.Slice
		peak  int64
		want  string
	}{
		{slice(gpu.Whole, 141*gib), 50 * gib, "held 141G, used at most 50G: 3g.71gb would do"},
		{slice(gpu.Whole, 141*gib), 25 * gib, "held 141G, used at most 25G: 1g.35gb would do"},
		{slice(gpu.Whole, 141*gib), 60 * gib, ""}, // 72 G are wanted, and the next profile is no step down
		{slice(gpu.MIG, 71*gib), 13 * gib, "held 71G, used at most 13G: 1g.18gb would do"},
		{slice(gpu.MIG, 71*gib), 14 * gib, "held 71G, used at most 14G: 1g.35gb would do"},
		{slice(gpu.MIG, 16*gib), gib, ""},
		{slice(gpu.MPS, 40*gib), 9 * gib, "held 40G, used at most 9G: 11G would do"},
		{slice(gpu.Shared, 40*gib), 200 << 20, "held 40G, used at most 200M: 1G would do"},
		{slice(gpu.MPS, 10*gib), 7 * gib, ""},
		{slice(gpu.Shared, 0), 7 * gib, ""},
		{slice(gpu.MIG, 71*gib), 0, ""}, // it was never used: that is no size
	} {
		if got := Enough(h200(), c.slice, c.peak); got != c.want {
			t.Errorf("%s of %s, at most %s: %q, want %q", c.slice.Mode, gigs(c.slice.Memory), gigs(c.peak), got, c.want)
		}
	}
}

func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.Whole, lease("a", 141*gib, 132))
		b.next.Processes = []gpu.ProcessUse{proc(1, gib, 0)}
		began := time.Now()
		b.run()
		for i := range 8 * 24 * 60 {
			b.set(func() { b.next.SM, b.next.MemoryUsed = float64(i%100), int64(i)<<20 })
			b.wait(time.Minute)
		}
		ps := b.s.Series("a")
		if len(ps) < 2016 || len(ps) > 2016+361 {
			t.Fatalf("%d points", len(ps))
		}
		for i, p := range ps[1:] {
			if !p.At.After(ps[i].At) {
				t.Fatalf("%v comes after %v", p.At, ps[i].At)
			}
		}
		if first, last := ps[0].At.Sub(began), ps[len(ps)-1].At.Sub(began); first < 23*time.Hour || first > 26*time.Hour || last < 8*24*time.Hour-time.Minute {
			t.Errorf("from %v to %v", first, last)
		}
		// 5 min of 30 readings, 6 each of 5 values in a row
		if p := ps[3]; math.Abs(*p.Top-*p.SM-2) > 0.3 {
			t.Errorf("mean %v, top %v", *p.SM, *p.Top)
		}
		if p := ps[len(ps)-2]; *p.SM != *p.Top || *p.Memory != (8*24*60-1)<<20 {
			t.Errorf("the last points: %v %v %v", *p.SM, *p.Top, *p.Memory)
		}
		s := b.s.records["a"].history
		if size := unsafe.Sizeof(point{}); size != 12 || (cap(s.fine.points)+cap(s.coarse.points))*int(size) > 2*28512 {
			t.Errorf("a point takes %d bytes", size)
		}
	})
}

func TestSeriesOfUnknowns(t *testing.T) {
	s := newSeries()
	s.add(3, unknown, unknown)
	s.add(13, 12.345, 5<<20)
	s.add(17, unknown, unknown)
	ps := s.points(time.Unix(0, 0))
	if len(ps) != 2 || ps[0].SM != nil || ps[0].Top != nil || ps[0].Memory != nil {
		t.Fatalf("what is not known is shown as %+v", ps)
	}
	if *ps[1].SM != 12.35 && *ps[1].SM != 12.34 || *ps[1].Memory != 5<<20 || ps[1].At.Unix() != 10 {
		t.Errorf("%v %v %v", ps[1].At, *ps[1].SM, *ps[1].Memory)
	}
}

func TestShare(t *testing.T) {
	for name, c := range map[string]struct {
		joules, floor float64
		others        float64
		portions      []portion
		want          []float64
	}{
		"one works":         {100, 50, 0, []portion{{50, 10, 1}, {50, 0, 1}}, []float64{75, 25}},
		"half is leased":    {100, 50, 0, []portion{{50, 10, 1}}, []float64{75}},
		"nobody works":      {100, 50, 0, []portion{{50, 0, 1}, {50, 0, 0}}, []float64{25, 25}},
		"not known":         {100, 50, 0, []portion{{60, -1, 1}, {20, 15, 1}, {20, -1, 0}}, []float64{30 + 37.5, 10 + 12.5, 10}},
		"all have all":      {100, 50, 0, []portion{{100, 25, 1}, {100, 75, 1}}, []float64{25 + 12.5, 25 + 37.5}},
		"a stranger":        {100, 0, 75, []portion{{100, 25, 1}}, []float64{25}},
		"less than a floor": {40, 50, 0, []portion{{100, 25, 1}}, []float64{50}},
	} {
		got := share(c.joules, c.floor, 100, c.others, c.portions)
		for i := range c.want {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

func TestFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, gpu.Whole, lease("a", 141*gib, 132))
		b.run()
		b.wait(10 * time.Second)
		inv := b.inventory()
		full := b.s.Fill(inv)
		if full.GPUs[0].Reading == nil || full.GPUs[0].Slices[0].Use.SM == nil {
			t.Errorf("not filled: %+v", full)
		}
		if inv.GPUs[0].Reading != nil || inv.GPUs[0].Slices[0].Use.SM != nil {
			t.Error("the argument was changed")
		}
		if b.reads != 2 {
			t.Errorf("%d readings in two rounds", b.reads)
		}
		if !strings.Contains(show(b.s.Use("stranger")), "no measurement") {
			t.Error("a stranger has a use")
		}
	})
}

// BenchmarkRound is one round over 8 GPUs of 7 slices each, without the readings themselves.
func BenchmarkRound(b *testing.B) {
	var inv gpu.Inventory
	var held []gpu.Lease
	reading := gpu.Reading{SM: -1, Utilisation: -1, Energy: 1, Instances: map[int]gpu.InstanceUse{}}
	for g := range 8 {
		state := gpu.State{Device: h200(), Mode: gpu.MIG}
		state.Device.UUID = fmt.Sprint("GPU-", g)
		for i := range 7 {
			l := lease(fmt.Sprint(g, "-", i), 16*gib, 16)
			l.Slice.GPU, l.Slice.Mode = state.Device.UUID, gpu.MIG
			held = append(held, l)
			state.Slices = append(state.Slices, gpu.SliceState{Slice: l.Slice, Holder: l.Holder, GI: &i})
			reading.Instances[i] = gpu.InstanceUse{SM: 50, MemoryUsed: gib}
		}
		inv.GPUs = append(inv.GPUs, state)
	}
	s := New(Config{
		Read:      func(context.Context, string) (gpu.Reading, error) { return reading, nil },
		Inventory: func() gpu.Inventory { return inv }, Held: func() []gpu.Lease { return held }, Logger: slog.New(slog.DiscardHandler),
	})
	for b.Loop() {
		s.round(b.Context())
	}
}
