package pool

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
	"slipway/spawner/batch/command"
)

// TestElastic has a pool that had H200s for a time judge what asks for one: what was there is waited for, what never
// was is refused, and a site may have nothing refused.
func TestElastic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen.json")
	small := spawner.Resources{CPUs: 1, Memory: 1 << 30}
	h200 := Demand{Resources: small, Arch: "X86_64", GPU: asked(t, "whole,memory>=100G")}
	never := Demand{Resources: small, GPU: asked(t, "any,memory>=500G")}
	synctest.Test(t, func(t *testing.T) {
		pilots := &fakePool{name: "later"}
		p := pilots.pool(t, Config{Seen: path})
		if err := p.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Judge(t.Context(), h200); err != nil || p.Forewarning(h200) != "" {
			t.Errorf("what is there: %v, %q", err, p.Forewarning(h200))
		}
		time.Sleep(3 * time.Hour)
		static := &fakePool{name: "idle"}
		p = static.pool(t, Config{Seen: path})
		if p.Forewarning(h200) != "" {
			t.Error("it is warned of what nobody has looked at")
		}
		if err := p.scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		const want = "no worker of now can take it; 1 GPU like it was last seen 3 h ago"
		if err := p.Judge(t.Context(), h200); err != nil || p.Forewarning(h200) != want {
			t.Errorf("what was there: %v, %q", err, p.Forewarning(h200))
		}
		if e, err := p.Explain(t.Context(), h200); err != nil || e.Summary != want || e.Fit != 0 {
			t.Errorf("%+v, %v", e, err)
		}
		if err := p.Judge(t.Context(), never); !errs.Is(err, errs.OverQuota) {
			t.Errorf("what never was: %v", err)
		}
		static.fail(errors.New("collector gone"))
		time.Sleep(time.Minute)
		if err := p.Judge(t.Context(), never); err != nil || p.Forewarning(never) != "" {
			t.Errorf("of a pool that is not seen: %v, %q", err, p.Forewarning(never))
		}
		static.fail(nil)
		p = static.pool(t, Config{Elastic: true})
		if err := p.Judge(t.Context(), never); err != nil || !strings.HasSuffix(p.Forewarning(never), "could: it waits for others to come") {
			t.Errorf("a pool whose workers come as needed: %v, %q", err, p.Forewarning(never))
		}
		p = static.pool(t, Config{Seen: path})
		time.Sleep(31 * 24 * time.Hour)
		if err := p.Judge(t.Context(), h200); !errs.Is(err, errs.OverQuota) {
			t.Errorf("what was there long ago: %v", err)
		}
	})
}

// TestSeenIsNoLicence: what the machines of now do not take is refused, though the same machines were seen before.
func TestSeenIsNoLicence(t *testing.T) {
	p := (&fakePool{name: "idle"}).pool(t, Config{})
	if err := p.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, d := range []Demand{{Site: []string{"TARGET.NoSuchThing =?= true"}}, {Arch: "aarch64"}, {GPU: asked(t, "any,capability>=9.0")}} {
		d.Resources = spawner.Resources{CPUs: 1, Memory: 1 << 30}
		if err := p.Judge(t.Context(), d); !errs.Is(err, errs.OverQuota) {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// TestAskedInTurn: who waits for another's question to the collector waits no longer than he wants, and who wants only
// what is known waits for nobody.
func TestAskedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		p, err := New(Config{Logger: slog.New(slog.DiscardHandler), Run: func(context.Context, command.Command) ([]byte, error) {
			<-slow
			return nil, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- p.scan(t.Context()) }()
		synctest.Wait()
		begun := time.Now()
		if p.Forewarning(Demand{}) != "" || time.Since(begun) > 0 {
			t.Error("a start waits for the collector")
		}
		if err := p.Judge(t.Context(), Demand{}); err != nil || time.Since(begun) != judgePatience {
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
