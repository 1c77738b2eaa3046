package usage

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/hubapi"
	"slipway/internal/agent/control"
	"slipway/internal/gpu"
	"slipway/internal/timeseries"
	"slipway/spawner"
)

// store is a store of this test's.
type store struct {
	mu      sync.Mutex // guards records
	records map[string]json.RawMessage
}

func newStore() *store { return &store{records: map[string]json.RawMessage{}} }

func (s *store) PutAll(_ context.Context, bucket string, values map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, value := range values {
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		s.records[bucket+" "+key] = raw
	}
	return nil
}

func (s *store) Delete(_ context.Context, bucket, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, bucket+" "+key)
	return nil
}

func (s *store) All(_ context.Context, bucket string) iter.Seq2[timeseries.Record, error] {
	return func(yield func(timeseries.Record, error) bool) {
		for key, value := range s.records {
			if of, name, _ := strings.Cut(key, " "); of == bucket && !yield(timeseries.Record{Key: name, Value: value}, nil) {
				return
			}
		}
	}
}

// site is what is measured.
type site struct {
	workloads []spawner.Workload
	cpu       atomic.Int64 // seconds, of everybody
	mute      map[spawner.ID]bool
	heard     Reading
	asked     atomic.Int64
}

func (s *site) config(store timeseries.Store) Config {
	sm, memory := 50.0, int64(1<<30)
	return Config{
		Store: store,
		Each: func(each func(w *spawner.Workload)) {
			for i := range s.workloads {
				each(&s.workloads[i])
			}
		},
		Heard: func(spawner.ID) Reading { return s.heard },
		Activity: func(ctx context.Context, id spawner.ID) (control.Activity, error) {
			s.asked.Add(1)
			if s.mute[id] {
				<-ctx.Done()
				return control.Activity{}, ctx.Err()
			}
			return control.Activity{CPU: float64(s.cpu.Load()), Memory: 2 << 30}, nil
		},
		GPU:    func(string) gpu.Use { return gpu.Use{SM: &sm, Memory: &memory} },
		Stored: func(spawner.Principal) int64 { return 7 },
		Logger: slog.New(slog.DiscardHandler),
	}
}

func workload(id spawner.ID, kind spawner.Kind, phase spawner.Phase) spawner.Workload {
	return spawner.Workload{
		ID: id, Kind: kind, Owner: "alice", Hub: "main", Phase: phase, Want: spawner.WantRunning, Launch: "l",
		Since: time.Now(),
	}
}

// for a while: Run is let go on until its rounds of that time are over.
func run(t *testing.T, m *Meter, d time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	time.Sleep(d)
	synctest.Wait()
	cancel()
	<-ended
}

func TestMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{mute: map[spawner.ID]bool{"j-mute": true}}
		with := workload("s-gpu", spawner.Lab, spawner.Running)
		with.Slice = &gpu.Slice{}
		s.workloads = []spawner.Workload{
			with, workload("j-mute", spawner.Job, spawner.Running), workload("j-waits", spawner.Job, spawner.Pending),
			workload("j-over", spawner.Job, spawner.Stopped),
		}
		saved := newStore()
		m, err := Open(t.Context(), s.config(saved))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(time.Second) // not together with the rounds
			for range 8 {           // two processors
				time.Sleep(15 * time.Second)
				s.cpu.Add(30)
			}
		}()
		run(t, m, 2*time.Minute+time.Second)
		<-done
		two, sm, memory, slice := 2.0, 50.0, int64(2<<30), int64(1<<30)
		points := m.Of("s-gpu")
		if len(points) != 4 || points[0].CPU != nil {
			t.Fatalf("%d points, and the first has a rate: %+v", len(points), points)
		}
		want := hubapi.UsagePoint{
			At: points[2].At, Seconds: 30, CPU: &two, Memory: &memory, GPU: &sm, GPUMemory: &slice,
		}
		if diff := cmp.Diff(want, points[2]); diff != "" {
			t.Error(diff)
		}
		if now := m.Now("s-gpu"); now.CPU == nil || *now.CPU != 2 {
			t.Errorf("now: %+v", now)
		}
		for _, p := range m.Of("j-mute") {
			if p.CPU != nil || p.Memory != nil || p.GPU != nil {
				t.Errorf("of one that does not answer and has no GPU: %+v", p)
			}
		}
		if got := m.Of("j-over"); got != nil {
			t.Errorf("of one that has ended: %+v", got)
		}
		queue := m.Queue()
		if q := queue[len(queue)-1]; q.Waiting != 1 || q.Jobs != 1 || q.Sessions != 1 || q.Wait < 90 {
			t.Errorf("the queue: %+v", q)
		}
		if got := m.Disk("main"); len(got["alice"]) == 0 || got["alice"][0].Bytes != 7 {
			t.Errorf("the disk: %+v", got)
		}
		if got := m.Disk("other"); len(got) > 0 {
			t.Errorf("another hub's users: %+v", got)
		}

		// after a restart it is known, and goes with the workload
		again, err := Open(t.Context(), s.config(saved))
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Of("s-gpu"); len(got) != len(points) {
			t.Errorf("after a restart: %d points of %d", len(got), len(points))
		}
		if now := again.Now("s-gpu"); now.CPU != nil || now.Memory != nil {
			t.Errorf("what was measured before a restart is taken for new: %+v", now)
		}
		s.workloads = s.workloads[1:]
		run(t, again, time.Minute)
		if got := again.Of("s-gpu"); got != nil {
			t.Errorf("of one that is gone: %+v", got)
		}
		if saved.records["usage s-gpu"] != nil {
			t.Error("and it stays in the store")
		}
	})
}

// TestAgentsThatBeginAnew: the CPU time of a new start counts from its own beginning.
func TestAgentsThatBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{workloads: []spawner.Workload{workload("s-1", spawner.Lab, spawner.Running)}}
		m, err := Open(t.Context(), s.config(newStore()))
		if err != nil {
			t.Fatal(err)
		}
		look := func(cpu int64) *float64 {
			s.cpu.Store(cpu)
			time.Sleep(every)
			m.ask(t.Context(), m.look().running)
			return m.Now("s-1").CPU
		}
		for i, cpu := range []int64{100, 10} {
			if got := look(cpu); got != nil {
				t.Errorf("look %d: %g processors, and nothing to compare with", i, *got)
			}
		}
		s.workloads[0].Launch = "another"
		if got := look(600); got != nil {
			t.Errorf("a new start: %g processors", *got)
		}
		if got := look(630); got == nil || *got != 1 {
			t.Errorf("after it: %v", got)
		}
	})
}

// TestHeard: an agent that has just told somebody else is not asked, and no answer counts twice.
func TestHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{workloads: []spawner.Workload{workload("s-1", spawner.Lab, spawner.Running)}}
		m, err := Open(t.Context(), s.config(newStore()))
		if err != nil {
			t.Fatal(err)
		}
		look := func(asks int64, cpu float64, memory int64) {
			t.Helper()
			s.asked.Store(0)
			m.ask(t.Context(), m.look().running)
			now := m.Now("s-1")
			if s.asked.Load() != asks || now.CPU == nil || *now.CPU != cpu || now.Memory == nil || *now.Memory != memory {
				t.Errorf("asked %d times: %+v", s.asked.Load(), now)
			}
		}
		m.ask(t.Context(), m.look().running)
		time.Sleep(20 * time.Second)
		s.heard = Reading{At: time.Now(), CPU: 40, Memory: 1 << 30}
		time.Sleep(10 * time.Second)
		look(0, 2, 1<<30)
		time.Sleep(10 * time.Second)
		s.cpu.Store(100)
		look(1, 3, 2<<30) // the same answer once more
		time.Sleep(every)
		s.cpu.Store(130)
		look(1, 1, 2<<30) // and too old
	})
}

func TestStoreThatCannotBeRead(t *testing.T) {
	s := &site{}
	if _, err := Open(t.Context(), s.config(broken{newStore()})); err == nil {
		t.Error("there is no error")
	}
}

type broken struct{ *store }

func (broken) All(context.Context, string) iter.Seq2[timeseries.Record, error] {
	return func(yield func(timeseries.Record, error) bool) { yield(timeseries.Record{}, errors.New("broken")) }
}
