package pool

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/batch/command"
	"slipway/spawner/htcondor/classad"
)

// fakePool answers condor_status with a file, or with an error.
type fakePool struct {
	name string

	mu    sync.Mutex
	err   error
	asked int
}

// fail has the next questions answered with an error; nil: with the file again.
func (f *fakePool) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakePool) run(_ context.Context, c command.Command) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.err != nil || c.Name != "condor_status" {
		return nil, f.err
	}
	return os.ReadFile(filepath.Join("testdata", "ads", f.name+".json"))
}

func (f *fakePool) pool(t *testing.T, cfg Config) *Pool {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Run = f.run
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCatalogue(t *testing.T) {
	slots := slices.Concat(captured(t, "busy"), captured(t, "later"), captured(t, "divided"))
	got := catalogueOf(slots, "here")
	for i := range got.Kinds {
		if n := len(got.Kinds[i].Runtimes); n > 0 {
			got.Kinds[i].Runtimes = []string{got.Kinds[i].Runtimes[0], got.Kinds[i].Runtimes[n-1]}
		}
	}
	gib := func(mib int64) int64 { return mib << 20 }
	h200 := GPUKind{
		Site: "T2_DE_Example", Sharing: SharedMIG, Capability: "9.0", Driver: "570.86.15", CUDA: "12.8", Runtimes: []string{"10.0", "12.9"}, Total: 1, Free: 1,
		Hosts: []string{"h200.example.org"},
	}
	of := func(k GPUKind, model, sharing string, mib int64) GPUKind {
		k.Model, k.Sharing, k.Memory = model, sharing, gib(mib)
		return k
	}
	want := []GPUKind{
		of(h200, "NVIDIA H200", SharedNot, 143771), of(h200, "NVIDIA H200 MIG 1g.18gb", SharedMIG, 16384), of(h200, "NVIDIA H200 MIG 3g.71gb", SharedMIG, 71168),
		{Site: "here", Sharing: SharedMIG, Memory: gib(4861), Runtimes: []string{}, Total: 7, Free: 6, Hosts: []string{"pool.slipway.test"}},
		{Site: "here", Model: "A100-SXM4-40GB", Sharing: SharedPart, Capability: "8.0", Memory: gib(47661), Runtimes: []string{}, Total: 1, Free: 1, Hosts: []string{"pool.slipway.test"}},
		{Site: "here", Model: "Tesla V100-PCIE-16GB", Sharing: SharedNot, Capability: "7.0", Memory: gib(24220), Runtimes: []string{}, Total: 1, Free: 0, Hosts: []string{"pool.slipway.test"}},
	}
	if diff := cmp.Diff(want, got.Kinds); diff != "" {
		t.Error(diff)
	}
	if got.Machines != 3 || got.Free["MIG-0caf1ce3-fcd4-59da-8564-764000e3ace9"] != 1 {
		t.Errorf("%d machines, free: %v", got.Machines, got.Free)
	}
}

// TestSimulatedGPUs: a machine that says so has no such hardware, and the models say it too, a nameless one's also.
func TestSimulatedGPUs(t *testing.T) {
	slots := captured(t, "busy")
	for _, s := range slots {
		s.Set("SlipwaySimulated", true)
	}
	var models []string
	for _, k := range catalogueOf(slots, "here").Kinds {
		models = append(models, k.Model)
	}
	if diff := cmp.Diff([]string{"(simulated)", "Tesla V100-PCIE-16GB (simulated)"}, models); diff != "" {
		t.Error(diff)
	}
}

// TestClassAdsOfACatalogue has them read back.
func TestClassAdsOfACatalogue(t *testing.T) {
	c := catalogueOf(captured(t, "later"), "")
	c.Kinds[0].Model = "odd \"name\" \\ \n\x1b"
	text := c.ClassAds()
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n]\n[") {
		e, err := classad.Parse("[" + strings.TrimSuffix(strings.TrimPrefix(part, "["), "]") + "]")
		if err != nil {
			t.Fatalf("%v in %s", err, part)
		}
		a := classad.Evaluate(e, nil, nil).(*classad.Ad)
		if n, ok := a.Number("TotalGPUs"); !ok || n != 1 || a.Text("Hosts") != "h200.example.org" {
			t.Errorf("%s", part)
		}
	}
	if !strings.Contains(text, `DeviceName = "odd \"name\" \\ ";`) {
		t.Error(text)
	}
}

// TestPoolIsAskedOnce has several questions within a short time be one to the collector.
func TestPoolIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakePool{name: "idle"}
		p := f.pool(t, Config{})
		for range 3 {
			if c, err := p.Catalogue(t.Context()); err != nil || len(c.Kinds) != 2 {
				t.Fatalf("%+v, %v", c, err)
			}
		}
		if f.asked != 1 {
			t.Errorf("asked %d times", f.asked)
		}
		time.Sleep(21 * time.Second)
		f.fail(errors.New("collector gone"))
		if _, err := p.Catalogue(t.Context()); err == nil {
			t.Error("an old answer is given for a new one")
		}
		f.fail(nil)
		if _, err := p.Catalogue(t.Context()); err == nil || f.asked != 2 {
			t.Errorf("a collector that is gone is asked again at once: %d times, %v", f.asked, err)
		}
		time.Sleep(21 * time.Second)
		if _, err := p.Catalogue(t.Context()); err != nil {
			t.Error(err)
		}
		f.fail(context.Canceled)
		time.Sleep(21 * time.Second)
		if _, err := p.Catalogue(t.Context()); err == nil {
			t.Error("who has gone is answered")
		}
		f.fail(nil)
		if _, err := p.Catalogue(t.Context()); err != nil {
			t.Errorf("because one has gone, the next is told %v", err)
		}
	})
}

func TestPoolJudges(t *testing.T) {
	f := &fakePool{name: "idle"}
	p := f.pool(t, Config{})
	d := Demand{Resources: spawner.Resources{CPUs: 1, Memory: 1 << 30}, GPU: asked(t, "any,memory>=80G")}
	if err := p.Judge(t.Context(), d); !errs.Is(err, errs.OverQuota) {
		t.Errorf("what can never match: %v", err)
	}
	d.GPU = asked(t, "shared")
	if err := p.Judge(t.Context(), d); !errs.Is(err, errs.Invalid) {
		t.Errorf("what no pool can promise: %v", err)
	}
	d.GPU = asked(t, "1g.5gb")
	if err := p.Judge(t.Context(), d); err != nil {
		t.Error(err)
	}
	if e, err := p.Explain(t.Context(), d); err != nil || e.Free != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	f = &fakePool{err: errors.New("collector gone")}
	if err := f.pool(t, Config{}).Judge(t.Context(), Demand{GPU: asked(t, "any,memory>=80G")}); err != nil {
		t.Errorf("a pool that does not answer refuses: %v", err)
	}
}

// TestHistory has scans be kept over a restart, for as long as they are to be, and an end in the midst of a line do no
// harm.
func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool.jsonl")
	synctest.Test(t, func(t *testing.T) {
		f := &fakePool{name: "later"}
		cfg := Config{History: path, Keep: time.Hour, Every: 10 * time.Minute}
		p := f.pool(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		began := time.Now()
		time.Sleep(35 * time.Minute)
		if n := len(p.History(began)); n != 4 {
			t.Errorf("%d scans in 35 min", n)
		}
		if n := len(p.History(began.Add(15 * time.Minute))); n != 2 {
			t.Errorf("%d scans since 15 min after the first", n)
		}
		f.fail(errors.New("collector gone"))
		time.Sleep(10 * time.Minute)
		f.fail(nil)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := torn.WriteString(`{"taken": "20`); err != nil {
			t.Fatal(err)
		}
		torn.Close()
		p = f.pool(t, cfg)
		past := p.History(time.Time{})
		if len(past) != 4 || len(past[0].Kinds) != 3 || past[0].Kinds[0].Total != 1 || past[0].Kinds[0].Hosts != nil {
			t.Errorf("after a restart: %+v", past)
		}
		time.Sleep(40 * time.Minute)
		if err := p.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(f.pool(t, cfg).History(time.Time{})); n != 2 {
			t.Errorf("%d scans of the last hour", n)
		}
	})
	if b, err := os.ReadFile(path); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("the file has %s, %v", b, err)
	}
	if _, err := openHistory(t.TempDir(), time.Hour, time.Now()); err == nil {
		t.Error("a directory is taken for a history")
	}
}
