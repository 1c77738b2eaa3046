package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"slipway/internal/gpu"
	"slipway/internal/gpu/fakegpu"
	"slipway/internal/gpu/fleet"
)

// memory is a store that outlives a fleet, as a disk does. It fails on demand.
type memory struct {
	mu      sync.Mutex
	records map[string][]byte
	step    func(op string) error // is called before each write; nil: all is well
}

func (m *memory) Put(_ context.Context, bucket, key string, value any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.meet("put"); err != nil {
		return err
	}
	b, err := json.Marshal(value)
	m.records[bucket+" "+key] = b
	return err
}

func (m *memory) Delete(_ context.Context, bucket, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.meet("delete"); err != nil {
		return err
	}
	delete(m.records, bucket+" "+key)
	return nil
}

func (m *memory) Sync(context.Context) error { return nil }

func (m *memory) meet(op string) error {
	if m.step == nil {
		return nil
	}
	return m.step(op)
}

func (m *memory) All(_ context.Context, bucket string) iter.Seq2[fleet.Record, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []fleet.Record
	for key, value := range m.records {
		if name, ok := strings.CutPrefix(key, bucket+" "); ok {
			all = append(all, fleet.Record{Key: name, Value: value})
		}
	}
	return func(yield func(fleet.Record, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (m *memory) count(bucket string) (n int) {
	for range m.All(context.Background(), bucket) {
		n++
	}
	return n
}

// site is a host with GPUs, and the engine's book of leases.
type site struct {
	t      testing.TB
	driver *fakegpu.Driver
	store  *memory
	cfg    fleet.Config
	fleet  *fleet.Fleet
	uuids  []string

	mu     sync.Mutex
	leases []gpu.Lease
	whose  map[int]string
	log    strings.Builder
	calls  int // of Changed
}

// newSite makes a host; change, which may be nil, says what is not as usual.
func newSite(t testing.TB, models []string, rules []fleet.Rule, change func(*fleet.Config)) *site {
	t.Helper()
	d, err := fakegpu.New(fakegpu.Config{Models: models})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, driver: d, store: &memory{records: map[string][]byte{}}, whose: map[int]string{}}
	devices, err := d.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, dev := range devices {
		s.uuids = append(s.uuids, dev.UUID)
	}
	s.cfg = fleet.Config{
		Driver: d, Store: s.store, Rules: rules, Held: s.held, Whose: s.owner, Bind: bind, Proc: t.TempDir(), Changed: s.changed,
		Logger: slog.New(slog.NewTextHandler(s, nil)),
	}
	if change != nil {
		change(&s.cfg)
	}
	s.restart()
	return s
}

// restart is a new service on the same host.
func (s *site) restart() {
	s.t.Helper()
	f, err := fleet.New(s.t.Context(), s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.fleet = f
}

func (s *site) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

func (s *site) logged(word string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.log.String(), word)
}

func (s *site) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
}

func (s *site) changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *site) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *site) held() []gpu.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.leases)
}

func (s *site) owner(pid int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whose[pid]
}

func (s *site) own(pid int, holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whose[pid] = holder
}

func bind(dev gpu.Device, in *gpu.Instance, s gpu.Slice, holder string) (gpu.Binding, error) {
	b := gpu.Binding{Name: gpu.Vendor + "=" + holder, Env: map[string]string{"GPU": dev.UUID}}
	if in != nil {
		b.Env["INSTANCE"] = in.UUID
	}
	return b, nil
}

// lease is what the engine does under its lock: look for a place, and put down who has it.
func (s *site) lease(holder string, r gpu.Request) (gpu.Slice, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var held []gpu.Slice
	for _, l := range s.leases {
		held = append(held, l.Slice)
	}
	slice, lacks := s.fleet.Place(r, held)
	if lacks == "" {
		s.leases = append(s.leases, gpu.Lease{Holder: holder, Slice: slice})
	}
	return slice, lacks
}

// strike takes a lease out of the book.
func (s *site) strike(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases = slices.DeleteFunc(s.leases, func(l gpu.Lease) bool { return l.Holder == holder })
}

func (s *site) release(holder string, slice gpu.Slice) {
	s.strike(holder)
	s.fleet.Release(holder, slice)
}

// have leases and realises.
func (s *site) have(holder, request string) gpu.Slice {
	s.t.Helper()
	slice, lacks := s.lease(holder, ask(s.t, request))
	if lacks != "" {
		s.t.Fatalf("%s for %s: %s", request, holder, lacks)
	}
	if _, err := s.fleet.Realise(s.t.Context(), holder, slice); err != nil {
		s.t.Fatal(err)
	}
	return slice
}

func ask(t testing.TB, request string) gpu.Request {
	t.Helper()
	r, err := gpu.ParseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *site) refresh() {
	s.t.Helper()
	if err := s.fleet.Refresh(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) instances(i int) []gpu.Instance {
	s.t.Helper()
	all, err := s.driver.Instances(context.Background(), s.uuids[i])
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func (s *site) state(i int) gpu.State { return s.fleet.Inventory().GPUs[i] }

func itoa(n int) string { return strconv.Itoa(n) }

func mig(more ...fleet.Rule) []fleet.Rule { return append(more, fleet.Rule{Match: "*", Mode: gpu.MIG}) }

func TestCutAndReuse(t *testing.T) {
	s := newSite(t, []string{"H200/mig"}, mig(), nil)
	a := s.have("ws-a", "1g.18gb")
	b := s.have("ws-b", "3g.71gb")
	if got := s.instances(0); len(got) != 2 {
		t.Fatalf("%d instances for two slices: %v", len(got), got)
	}
	again, err := s.fleet.Realise(t.Context(), "ws-a", a)
	if err != nil || again.Env["INSTANCE"] == "" || len(s.instances(0)) != 2 {
		t.Fatalf("realised again: %v, %v, %v", again, err, s.instances(0))
	}
	s.release("ws-a", a)
	if c := s.have("ws-c", "1g.18gb"); !c.Same(a) || len(s.instances(0)) != 2 {
		t.Errorf("the ready instance at %v is not used: %v, %v", a.Placement, c.Placement, s.instances(0))
	}
	s.release("ws-b", b)
	s.release("ws-c", a)
	s.have("ws-d", "7g.141gb")
	if got := s.instances(0); len(got) != 1 || got[0].Profile != "7g.141gb" {
		t.Errorf("ready instances do not make room: %v", got)
	}
	if n := s.store.count("gpu-instances"); n != 1 {
		t.Errorf("%d records of one instance", n)
	}
}

func TestBadPlaceIsAnErrorOfItsOwn(t *testing.T) {
	s := newSite(t, []string{"H200/mig"}, mig(), nil)
	_, err := s.fleet.Realise(t.Context(), "ws-a", gpu.Slice{GPU: "GPU-unknown", Mode: gpu.MIG})
	if !errors.Is(err, gpu.ErrBadPlace) {
		t.Errorf("a GPU that is not there: %v", err)
	}
}
