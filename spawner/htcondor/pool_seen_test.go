package htcondor

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// TestElastic has a pool that had H200s for a time judge what asks for one: what was there is waited for, what never
// was is refused, and a site may have nothing refused.
func TestElastic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen.json")
	small := spawner.Resources{CPUs: 1, Memory: 1 << 30}
	h200 := demand{resources: small, arch: "X86_64", gpu: asked(t, "whole,memory>=100G")}
	never := demand{resources: small, gpu: asked(t, "any,memory>=500G")}
	synctest.Test(t, func(t *testing.T) {
		pilots := &fakePool{name: "later"}
		p := pilots.pool(t, PoolConfig{Seen: path})
		if err := p.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.judge(t.Context(), h200); err != nil || p.forewarning(h200) != "" {
			t.Errorf("what is there: %v, %q", err, p.forewarning(h200))
		}
		time.Sleep(3 * time.Hour)
		static := &fakePool{name: "idle"}
		p = static.pool(t, PoolConfig{Seen: path})
		if p.forewarning(h200) != "" {
			t.Error("it is warned of what nobody has looked at")
		}
		if err := p.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		const want = "no worker of now can take it; 1 GPU like it was last seen 3 h ago"
		if err := p.judge(t.Context(), h200); err != nil || p.forewarning(h200) != want {
			t.Errorf("what was there: %v, %q", err, p.forewarning(h200))
		}
		if e, err := p.explain(t.Context(), h200); err != nil || e.Summary != want || e.Fit != 0 {
			t.Errorf("%+v, %v", e, err)
		}
		if err := p.judge(t.Context(), never); !errs.Is(err, errs.OverQuota) {
			t.Errorf("what never was: %v", err)
		}
		static.fail(errors.New("collector gone"))
		time.Sleep(time.Minute)
		if err := p.judge(t.Context(), never); err != nil || p.forewarning(never) != "" {
			t.Errorf("of a pool that is not seen: %v, %q", err, p.forewarning(never))
		}
		static.fail(nil)
		p = static.pool(t, PoolConfig{Elastic: true})
		if err := p.judge(t.Context(), never); err != nil || !strings.HasSuffix(p.forewarning(never), "could: it waits for others to come") {
			t.Errorf("a pool whose workers come as needed: %v, %q", err, p.forewarning(never))
		}
		p = static.pool(t, PoolConfig{Seen: path})
		time.Sleep(31 * 24 * time.Hour)
		if err := p.judge(t.Context(), h200); !errs.Is(err, errs.OverQuota) {
			t.Errorf("what was there long ago: %v", err)
		}
	})
}

// TestSeenIsNoLicence: what the machines of now do not take is refused, though the same machines were seen before.
func TestSeenIsNoLicence(t *testing.T) {
	p := (&fakePool{name: "idle"}).pool(t, PoolConfig{})
	if err := p.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, d := range []demand{{site: []string{"TARGET.NoSuchThing =?= true"}}, {arch: "aarch64"}, {gpu: asked(t, "any,capability>=9.0")}} {
		d.resources = spawner.Resources{CPUs: 1, Memory: 1 << 30}
		if err := p.judge(t.Context(), d); !errs.Is(err, errs.OverQuota) {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// TestAskedInTurn: who waits for another's question to the collector waits no longer than he wants, and who wants only
// what is known waits for nobody.
func TestAskedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		p, err := newPool(PoolConfig{Logger: slog.New(slog.DiscardHandler)}, func(context.Context, command) ([]byte, error) {
			<-slow
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- p.scan(t.Context()) }()
		synctest.Wait()
		begun := time.Now()
		if p.forewarning(demand{}) != "" || time.Since(begun) > 0 {
			t.Error("a start waits for the collector")
		}
		if err := p.judge(t.Context(), demand{}); err != nil || time.Since(begun) != judgePatience {
			t.Errorf("judged after %s: %v", time.Since(begun), err)
		}
		close(slow)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestSeenFile has a file that is torn be begun anew, and one that cannot be read be an error.
func TestSeenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen.json")
	if err := os.WriteFile(path, []byte(`[{"arch": "X86`), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := openSightings(path, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.add(captured(t, "busy"), time.Now()); err != nil {
		t.Fatal(err)
	}
	m, err = openSightings(path, time.Hour)
	if err != nil || len(m.kinds) != 1 || len(m.gone(captured(t, "idle"), time.Now())) != 0 {
		t.Errorf("a busy machine is another than when it is idle: %v, %v", m, err)
	}
	fuller := captured(t, "busy")
	fuller[0].Set("TotalSlotDisk", int64(1<<20))
	if len(m.gone(fuller, time.Now())) != 0 {
		t.Error("a machine whose disk has filled is another")
	}
	if _, err := openSightings(t.TempDir(), time.Hour); err == nil {
		t.Error("a directory is taken for a file")
	}
}

// TestArchitectureAtSubmit has an environment's architecture be looked at when it is submitted.
func TestArchitectureAtSubmit(t *testing.T) {
	b := &Backend{cfg: Config{Disk: 1 << 20, Pool: (&fakePool{name: "idle"}).pool(t, PoolConfig{})}, log: slog.New(slog.DiscardHandler)}
	w := spawner.Workload{ID: "j-1", Spec: spawner.Spec{Environment: "sha256:1", Resources: spawner.Resources{CPUs: 1, Memory: 1 << 20}}}
	for arch, want := range map[string]string{
		"amd64": "", "riscv64": "", "gone": "", "arm64": "no worker of this pool is aarch64; 1 is x86_64", "ppc64le": "no worker of this pool is ppc64le; 1 is x86_64",
	} {
		b.cfg.Arch = func(digest string) (string, error) {
			if arch == "gone" || digest != "sha256:1" {
				return "", errs.New(errs.NotFound, "no such environment")
			}
			return arch, nil
		}
		err := b.Judge(t.Context(), w)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arch, err, want)
		}
	}
}

// TestForewarned has a user be told at the start that what she asked for is not there.
func TestForewarned(t *testing.T) {
	p := (&fakePool{name: "idle"}).pool(t, PoolConfig{Elastic: true})
	if err := p.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := &Backend{cfg: Config{Pool: p}}
	for request, want := range map[string]string{
		"any": "", "any,memory>=500G": "HTCondor: no worker of now can take it, and none of the last that were seen could: it waits for others to come",
	} {
		told := ""
		l := spawner.Launch{Report: func(text string, _ int) { told = text }}
		l.Spec.Resources, l.Spec.GPU = spawner.Resources{CPUs: 1, Memory: 1 << 20}, asked(t, request)
		if b.forewarn(l, record{}); told != want {
			t.Errorf("%s: %q, want %q", request, told, want)
		}
	}
}
