package engine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway/internal/agent/control"
	"slipway/internal/clock"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/diagnosis"
	"slipway/spawner/jobfiles"
	"slipway/spawner/launch"
)

// linkChange says that the link to a workload's agent has come up or gone down.
type linkChange struct {
	id spawner.ID
	up bool
}

// LinkChanged tells the Manager that the link to a workload's agent has come up or gone down.
func (m *Manager) LinkChanged(ctx context.Context, id spawner.ID, up bool) {
	select {
	case m.links <- linkChange{id, up}:
	case <-ctx.Done():
	}
}

// followLinks attends to every agent whose link is up.
func (m *Manager) followLinks(ctx context.Context) {
	g, ctx := errgroup.WithContext(ctx)
	ends := map[spawner.ID]context.CancelFunc{}
	for {
		select {
		case <-ctx.Done():
			_ = g.Wait() // attend returns no error
			return
		case c := <-m.links:
			if end := ends[c.id]; end != nil {
				end()
				delete(ends, c.id)
			}
			if !c.up {
				m.hear(ctx, c.id, control.Status{})
				continue
			}
			own, end := context.WithCancel(ctx)
			ends[c.id] = end
			g.Go(func() error { m.followAgent(own, c.id); return nil })
		}
	}
}

// followAgent listens to an agent until its link goes down: its word on the app, and a job's output as it comes.
func (m *Manager) followAgent(ctx context.Context, id spawner.ID) {
	g, ctx := errgroup.WithContext(ctx)
	if id.OfJob() {
		g.Go(func() error { m.followLog(ctx, id); return nil })
	} else {
		m.Ask(m.kindOf(id), func(k Kind) { g.Go(func() error { k.Follow(ctx, id); return nil }) })
	}
	g.Go(func() error {
		for ctx.Err() == nil {
			err := m.cfg.Agents.Agent(id).Watch(ctx, func(s control.Status) error { m.hear(ctx, id, s); return nil })
			if ctx.Err() == nil {
				m.log.Debug("agent's watch ended", "id", id, "err", err)
				clock.Sleep(ctx, time.Second)
			}
		}
		return nil
	})
	_ = g.Wait() // the functions above return no error
}

// hear notes an agent's word. What comes late, when the link has gone down and ctx with it, would hide what a newer
// link says.
func (m *Manager) hear(ctx context.Context, id spawner.ID, s control.Status) {
	if then := m.noteWord(ctx, id, s); then != nil {
		then(ctx)
	}
}

func (m *Manager) noteWord(ctx context.Context, id spawner.ID, s control.Status) (then func(context.Context)) {
	tx := m.Begin()
	defer tx.End()
	if e := m.work[id]; e != nil && ctx.Err() == nil {
		e.Status, e.Pulse.Mute = s, time.Time{}
		if e.Kind == spawner.Job && s.Progress != nil && s.Launch == e.Run() {
			e.Reported = s.Progress
		}
		if e.Remote && (e.Kind == spawner.Job || s.Leaving) && appOf(*e) == control.Exited && e.quit.IsZero() {
			e.quit = time.Now()
		}
		m.Ask(e.Kind, func(k Kind) { then = k.Heard(tx, e, s) })
		tx.announce(e)
		m.queue.Add(id)
	}
	return then
}

// kindOf returns the kind of a workload; empty: there is none.
func (m *Manager) kindOf(id spawner.ID) spawner.Kind {
	v := m.View()
	defer v.End()
	if e := v.Entry(id); e != nil {
		return e.Kind
	}
	return ""
}

// followLog copies a job's output into its directory as it comes, going on where an earlier copy ended.
func (m *Manager) followLog(ctx context.Context, id spawner.ID) {
	for ctx.Err() == nil {
		err := m.pullLog(ctx, id, m.cfg.Agents.Agent(id), true)
		if err == nil {
			return // the app has exited and all is here
		}
		m.log.Debug("a job's log broke off", "id", id, "err", err)
		clock.Sleep(ctx, time.Second)
	}
}

// pullLog appends the agent's log to the copy here, one writer at a time.
func (m *Manager) pullLog(ctx context.Context, id spawner.ID, from jobfiles.Source, follow bool) error {
	e, ok := m.Snapshot(id)
	if !ok {
		return nil
	}
	select {
	case e.copying <- struct{}{}:
		defer func() { <-e.copying }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return m.files.CopyLog(ctx, id, from, follow, func() { // readers of the log look again
		tx := m.Begin()
		defer tx.End()
		if e := m.work[id]; e != nil {
			tx.announce(e)
		}
	})
}

// sendInputs gives an agent a job's input files, which lie in dir.
func sendInputs(ctx context.Context, to Agent, dir string, names []string) error {
	for _, name := range names {
		if err := sendInput(ctx, to, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("send input file %s: %w", name, err)
		}
	}
	return nil
}

// slowest is the least rate, in bytes a second, at which an agent must take or give files.
const slowest = 1 << 20

func sendInput(ctx context.Context, to Agent, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, agentPatience+time.Duration(info.Size()/slowest)*time.Second)
	defer cancel()
	err = to.Put(ctx, filepath.Base(path), info.Size(), f)
	if errs.Is(err, errs.Conflict) {
		return nil // the agent has its app already: this is a repetition
	}
	return err
}

// How long fetching what an app left may be repeated: while somebody wants it, and when its owner has stopped it.
const (
	collectPatience = 5 * time.Minute
	partingPatience = 15 * time.Second
)

// collect fetches what an app that has exited leaves: its last lines, a job's whole log and files, and how it ended.
func (m *Manager) collect(ctx context.Context, e Entry, o spawner.Observation) error {
	deadline := m.collectUntil(e)
	if !cameBack(e, o) { // that stays
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	from, status, err := m.source(ctx, e, o)
	switch {
	case errs.Is(err, errs.NotFound):
		return m.end(ctx, e, m.ailment(e, m.whyFailed(e, o)))
	case err != nil:
		m.relay(e.ID, "What it has left cannot be fetched yet; trying again. If this lasts, tell your administrator", 0)
		return err
	}
	e.Status = status
	out := m.verdict(e, o)
	if e.Kind == spawner.Job {
		lost, err := m.collectJob(ctx, e, from)
		switch {
		case err != nil && (e.Remote || jobfiles.Full(err) && e.Want == spawner.WantRunning):
			m.hinder(e, err)
			return nil
		case err != nil && time.Now().Before(deadline):
			return err
		case err != nil:
			lost = append(lost, err.Error())
		}
		_, missing := jobfiles.Wanted(e.Spec.Out, e.Status.Files)
		diagnosis.AddMissing(&out, missing)
		diagnosis.AddLost(&out, lost)
	}
	m.relieve(e.ID)
	// Without the last lines the outcome is still true.
	out.Tail, _ = m.tailOf(ctx, e, from)
	if e.Kind == spawner.Kernel && out.Failed {
		out = diagnosis.OfKernel(out, e.Phase == spawner.Running)
	}
	return m.end(ctx, e, m.ailment(e, out))
}

// collectUntil returns the time until which fetching is repeated, counted from the first try.
func (m *Manager) collectUntil(e Entry) time.Time {
	tx := m.Begin()
	defer tx.End()
	now := m.work[e.ID]
	if now == nil {
		return time.Now()
	}
	if now.collecting.IsZero() {
		now.collecting = time.Now()
	}
	if e.Want == spawner.WantRunning {
		return now.collecting.Add(collectPatience)
	}
	return now.collecting.Add(partingPatience)
}

// verdict reads an app's end from its agent's last word, and from what the backend knows of why.
func (m *Manager) verdict(e Entry, o spawner.Observation) spawner.Outcome {
	s := e.Status
	if s.State != control.Exited { // it has ended on another host without its agent
		return m.whyFailed(e, o)
	}
	out := spawner.Outcome{
		ExitCode: s.ExitCode, Reason: s.Reason, MaxRSS: max(s.MaxRSS, o.Memory), CPU: max(s.CPU, o.CPU),
	}
	if e.Kind == spawner.Job {
		out.ExitCode = cmp.Or(s.ExitCode, o.ExitCode)
		out.Failed, out.Signal, out.Progress, out.Wall = out.ExitCode != 0, diagnosis.SignalOf(out.ExitCode), s.Progress, ranFor(s)
		if out.Failed {
			out.Cause = spawner.CauseExit
		}
	} else {
		out.Failed = e.Phase != spawner.Running || s.ExitCode != 0
	}
	if out.Failed && o.Reason != "" {
		out.Reason, out.Remedy = o.Reason, o.Remedy
	}
	if e.Kind == spawner.Code && e.Phase != spawner.Running && s.ExitCode == diagnosis.NotThere {
		out.Reason = fmt.Sprintf(
			"the image %s has no VS Code: there is no program %s in it", e.Spec.Image, launch.CodeServer,
		)
		out.Remedy = "choose an image that has it, or ask your administrator for one"
	}
	if out.Reason == "" && out.Failed {
		out.Reason = fmt.Sprintf("%s ended with exit code %d", e.Kind.Title(), out.ExitCode)
		if e.Kind.HubServer() && e.Phase != spawner.Running {
			out.Remedy = diagnosis.StartFresh
		}
	}
	return out
}

// mostWall bounds what an agent may say of how long its app has run.
const mostWall = 10 * 365 * 24 * time.Hour

// ranFor returns for how many seconds an app has run by its agent's word, whatever its clock says; 0: it does not tell.
func ranFor(s control.Status) float64 {
	if d := s.Ended.Sub(s.Started); !s.Started.IsZero() && d > 0 && d < mostWall {
		return d.Seconds()
	}
	return 0
}

// collectJob fetches the rest of a job's log, and its files. What can never be had is named in lost; an error is worth
// a repetition.
func (m *Manager) collectJob(ctx context.Context, e Entry, from jobfiles.Source) (lost []string, err error) {
	if err := m.pullLog(ctx, e.ID, from, false); jobfiles.Permanent(err) && !jobfiles.Full(err) {
		lost = append(lost, fmt.Sprintf("the end of the log: %v", err))
	} else if err != nil {
		return nil, fmt.Errorf("fetch the log of %s: %w", e.ID, err)
	}
	files, _ := jobfiles.Wanted(e.Spec.Out, e.Status.Files)
	more, err := m.files.Fetch(ctx, e.ID, from, files)
	if err != nil {
		return nil, err
	}
	return append(lost, more...), nil
}
