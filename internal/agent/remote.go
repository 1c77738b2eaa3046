package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"slipway/images/changeset"
	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
)

// An agent on another host than the service's has to do by itself what the service does for others, for it may not be
// reached.

const (
	patience  = 10 * time.Minute // how long a service may be away that is needed for nothing but the end
	lookEvery = 5 * time.Second
)

// remoteState knows whether the agent is on another host, and since when it has not reached the service.
type remoteState struct {
	is    bool
	alone bool // the agent has its process namespace for itself and its app

	mu    sync.Mutex
	up    bool      // the link
	since time.Time // when it last changed; the beginning, when there was none yet
}

func newRemote(cfg Config) *remoteState {
	is := false
	for _, name := range []string{cfg.UplinkFile, cfg.AppFile} {
		if _, err := os.Stat(name); err == nil {
			is = true
		}
	}
	return &remoteState{is: is, alone: process.Alone("/proc", os.Getpid(), os.Getppid()), since: time.Now()}
}

// changed notes that the link has come up, or gone down.
func (f *remoteState) changed(up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up, f.since = up, time.Now()
}

// away is how long the service has not been reached.
func (f *remoteState) away() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.up {
		return 0
	}
	return time.Since(f.since)
}

// launchAlone starts what a job is to run, if the agent has that with it. The service may say the same later, which is
// harmless.
func (a *agent) launchAlone() error {
	f, err := os.Open(a.cfg.AppFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what to start: %w", err)
	}
	defer f.Close()
	var app control.App
	if err := json.NewDecoder(io.LimitReader(f, maxApp)).Decode(&app); err != nil {
		return fmt.Errorf("read what to start: %w", err)
	}
	a.app.files.takeInputs()
	if err := a.app.launch(app); err != nil {
		return fmt.Errorf("start %s: %w", app.Launch, err)
	}
	return nil
}

// endAlone ends an agent that nobody else ends: that of a job when its app has exited, for all that it leaves is in
// files; that of a session whose app does not run when the service has been away for long.
func (a *agent) endAlone(ctx context.Context) {
	if !a.remote.is {
		return
	}
	if _, err := os.Stat(a.cfg.AppFile); err == nil {
		select {
		case <-a.app.over:
			a.end()
		case <-ctx.Done():
		}
		return
	}
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		st, _ := a.app.now()
		if runs := st.State == control.Starting || st.State == control.Ready; !runs && a.remote.away() >= patience {
			a.log.Warn("the service is away, and nothing runs here: ending", "away", a.remote.away().Round(time.Second))
			a.end()
			return
		}
	}
}

// leave writes down what is to be known of the end. What was interrupted (outer has ended) is not resumed, so its
// changes are not kept.
func (a *agent) leave(outer context.Context) {
	if !a.remote.is {
		return
	}
	if a.remote.alone {
		_ = syscall.Kill(-1, syscall.SIGKILL) // all but this process and the first of its namespace
	}
	st, _ := a.app.now()
	err := os.MkdirAll(a.cfg.LastDir, 0o700)
	if err == nil && outer.Err() == nil && a.app.kernelNow() == nil { // a kernel's changes go with it
		err = a.leaveChanges(outer)
	}
	if err != nil {
		a.log.Error("the session's changes are lost", "error", err)
		st.Reason = strings.TrimPrefix(st.Reason+"; what the session had changed is lost: "+err.Error(), "; ")
	}
	if err := a.leaveStatus(st); err != nil {
		a.log.Error("how it ended cannot be written down", "error", err)
	}
}

func (a *agent) leaveStatus(st control.Status) error {
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return a.leaveFile(filepath.Base(control.LastStatus), func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// leaveChanges packs what a session has changed, where it has an overlay. Nothing runs that could change it still.
func (a *agent) leaveChanges(ctx context.Context) error {
	p := a.packer()
	if _, err := os.Stat(filepath.Join(p.overlay, "upper")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	cfg, err := p.config(nil)
	if err != nil {
		return err
	}
	return a.leaveFile(filepath.Base(control.LastPack), func(w io.Writer) error { return changeset.Pack(ctx, cfg, w) })
}

// leaveFile writes a file of LastDir. It is there whole or not at all.
func (a *agent) leaveFile(name string, write func(io.Writer) error) error {
	next := filepath.Join(a.cfg.LastDir, "."+name)
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(next, filepath.Join(a.cfg.LastDir, name))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(next))
	}
	return err
}
