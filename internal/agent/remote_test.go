package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// farIn is an agent's configuration on another host, with what it is to start by itself.
func farIn(t *testing.T, app any) Config {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "remote")
	b, err2 := json.Marshal(app)
	cfg := configIn(dir)
	cfg.UplinkFile, cfg.AppFile, cfg.LastDir = filepath.Join(dir, "uplink.json"), filepath.Join(dir, "app.json"), filepath.Join(dir, "last")
	if err := errors.Join(err, err2, os.WriteFile(cfg.AppFile, b, 0o600), os.Mkdir(cfg.WorkDir, 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return cfg
}

func lastStatus(t *testing.T, cfg Config) (st control.Status) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(cfg.LastDir, "status.json"))
	if err := errors.Join(err, json.Unmarshal(b, &st)); err != nil {
		t.Fatal(err)
	}
	return st
}

// A job needs no service: its agent starts it, and ends with it.
func TestJobAlone(t *testing.T) {
	app := shell("cat in; echo changed > in; echo o > out; exit 3")
	app.Launch = "l7"
	cfg := farIn(t, app)
	if err := os.WriteFile(filepath.Join(cfg.WorkDir, "in"), []byte("sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), cfg)
	if e, ok := errors.AsType[*ExitError](err); !ok || e.Code != 3 {
		t.Errorf("the agent ended with %v", err)
	}
	st := lastStatus(t, cfg)
	want := control.Status{Launch: "l7", State: control.Exited, ExitCode: 3, LogSize: 4, Files: []control.File{{Name: "out", Size: 2}}}
	st.Started, st.Ended, st.MaxRSS, st.CPU = time.Time{}, time.Time{}, 0, 0
	if diff := cmp.Diff(want, st); diff != "" {
		t.Error(diff)
	}
}

// The service may come all the same, and say the same.
func TestJobAloneIsLaunchedAgain(t *testing.T) {
	app := shell("while [ ! -e go ]; do sleep 0.05; done")
	app.Launch = "l7"
	cfg := farIn(t, app)
	r := newRig(t, func(c *Config) { c.AppFile, c.LastDir = cfg.AppFile, cfg.LastDir })
	if err := r.client.Launch(t.Context(), app); err != nil {
		t.Errorf("the same launch: %v", err)
	}
	app.Launch = "l8"
	if err := r.client.Launch(t.Context(), app); !errs.Is(err, errs.Conflict) {
		t.Errorf("another launch: %v", err)
	}
	if err := os.WriteFile(filepath.Join(r.cfg.WorkDir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent has left its status", func() bool {
		_, err := os.Stat(filepath.Join(cfg.LastDir, "status.json"))
		return err == nil
	})
	if st := lastStatus(t, cfg); st.Launch != "l7" || st.ExitCode != 0 {
		t.Errorf("%+v", st)
	}
}

// What cannot be started has ended, and says why; what cannot be read is the agent's own end.
func TestJobAloneCannotStart(t *testing.T) {
	cfg := farIn(t, control.App{Launch: "l7", Argv: []string{"no-such-program"}})
	if err := Run(t.Context(), cfg); err == nil {
		t.Error("no error")
	}
	if st := lastStatus(t, cfg); st.ExitCode != 127 || st.Reason == "" {
		t.Errorf("%+v", st)
	}
	for _, bad := range []any{"no app", control.App{}, control.App{Launch: "l7"}} {
		cfg := farIn(t, bad)
		if err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%+v: no error", bad)
		}
		if st := lastStatus(t, cfg); st.State != control.Idle {
			t.Errorf("%+v: %+v", bad, st)
		}
	}
}

// An agent that is interrupted leaves its status, and packs nothing.
func TestRemoteInterrupted(t *testing.T) {
	app := shell("sleep 600")
	app.Launch, app.Grace = "l7", time.Second
	cfg := farIn(t, app)
	cfg.OverlayDir = filepath.Join(filepath.Dir(cfg.WorkDir), "overlay")
	if err := os.MkdirAll(filepath.Join(cfg.OverlayDir, "upper"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	eventually(t, "the app is up", func() bool { _, err := os.Stat(cfg.LogFile); return err == nil })
	cancel()
	if err := <-done; err == nil {
		t.Error("no error")
	}
	if st := lastStatus(t, cfg); st.State != control.Exited || st.ExitCode == 0 {
		t.Errorf("%+v", st)
	}
	if list, err := os.ReadDir(cfg.LastDir); len(list) != 1 || err != nil {
		t.Errorf("left %v, %v", list, err)
	}
}

// On the service's own host nothing is left, and nothing ends by itself.
func TestNotRemote(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LastDir = filepath.Join(filepath.Dir(c.WorkDir), "last") })
	r.launch(t, shell("exit 0"), control.Exited)
	if err := r.client.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	if _, err := os.Stat(r.cfg.LastDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the last word: %v", err)
	}
}

// A session whose app does not run gives its place back when the service has been away for long.
func TestSessionAlone(t *testing.T) {
	for name, test := range map[string]struct {
		state control.State
		link  bool
		ends  bool
	}{
		"never told what to start": {control.Idle, false, true},
		"exited":                   {control.Exited, false, true},
		"exited, and asked":        {control.Exited, true, false},
		"starting":                 {control.Starting, false, false},
		"running":                  {control.Ready, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &agent{cfg: configIn("/nowhere"), log: slog.New(slog.DiscardHandler), ending: make(chan struct{}), remote: &remoteState{is: true, since: time.Now()}}
				a.app = newSupervisor(a)
				a.app.set(func(st *control.Status) { st.State = test.state })
				ctx, cancel := context.WithCancel(t.Context())
				a.work.Go(func() { a.endAlone(ctx) })
				if test.link {
					a.remote.changed(true)
					time.Sleep(time.Hour)
					a.remote.changed(false)
				}
				time.Sleep(patience - time.Second)
				if hasEnded(a) {
					t.Error("it ended before its time")
				}
				time.Sleep(2 * lookEvery)
				if ended := hasEnded(a); ended != (test.ends || test.link) {
					t.Errorf("ended: %v", ended)
				}
				cancel()
				a.work.Wait()
			})
		})
	}
}

func hasEnded(a *agent) bool {
	select {
	case <-a.ending:
		return true
	default:
		return false
	}
}
