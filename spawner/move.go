package spawner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"slipway/internal/agent/control"
)

// mostMoves is how many parts of GPUs a start may find bad before it fails: then it is rather the workload that is at fault.
const mostMoves = 3

// Run names one run of a workload's launch: after a move the same launch is run again.
func (w Workload) Run() string {
	if w.Moves == 0 {
		return w.Launch
	}
	return fmt.Sprintf("%s.%d", w.Launch, w.Moves)
}

// leaveSlice quarantines a slice on which a workload could not run, and sends the workload back in line for another.
func (m *Manager) leaveSlice(ctx context.Context, e entry, why string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.work[e.ID]
	if now == nil || now.Rev != e.Rev || now.Slice == nil {
		return nil
	}
	if now.Moves >= mostMoves {
		return m.endLocked(ctx, now, Outcome{
			Failed: true, ExitCode: 1, Reason: fmt.Sprintf("%d parts of GPUs in a row could not be used; the last, %s: %s", mostMoves+1, now.Slice, why),
			Remedy: "tell your administrator: `slipway gpus` shows what is quarantined and why",
		})
	}
	return m.moveLocked(ctx, now, fmt.Sprintf("%s cannot be used (%s): looking for another", now.Slice, why))
}

// moveLocked ends what runs of a workload and has it go back in line, where it stands before those who asked later.
func (m *Manager) moveLocked(ctx context.Context, e *entry, message string) error {
	err := m.changeLocked(ctx, e, func(e *entry) { e.Phase, e.Moving, e.Moves = Stopping, true, e.Moves+1 })
	if err != nil {
		return err
	}
	if e.abort != nil {
		e.abort()
	}
	m.noteLocked(e, Event{Percent: 5, Message: message})
	return nil
}

// requeue puts a workload that was seen gone back in line: its slice is free, its inputs and secrets are kept. A job begins anew, so
// what it had printed is dropped.
func (m *Manager) requeue(ctx context.Context, e entry) error {
	m.cfg.Agents.Close(e.ID)
	for _, name := range []string{"link", "run", filepath.Base(m.logFile(e.ID))} {
		if err := os.RemoveAll(filepath.Join(m.dir(e.ID), name)); err != nil {
			return fmt.Errorf("clear the directory of %s: %w", e.ID, err)
		}
	}
	changed, err := m.change(ctx, e.ID, e.Rev, func(e *entry) {
		e.Phase, e.Slice, e.Lender, e.Moving, e.started, e.status = Pending, nil, "", false, false, control.Status{}
	})
	if changed && err == nil {
		m.release(e)
	}
	return err
}

// release tells the GPUs that a workload was seen gone from its slice. One that it had only borrowed stays its owner's.
func (m *Manager) release(e entry) {
	if e.Slice != nil && m.cfg.GPUs != nil && !m.owned(e) {
		m.cfg.GPUs.Release(e.holder(), *e.Slice)
	}
}

// holder names to the GPUs for whom a workload's slice was made: the lender of a borrowed one, also when that has gone meanwhile.
func (w Workload) holder() string {
	if w.Lender != "" {
		return string(w.Lender)
	}
	return string(w.ID)
}

// owned reports whether the place that a workload has left is still held by another: by who lent it, or by who borrowed it.
func (m *Manager) owned(e entry) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for id, s := range m.slices {
		if id != e.ID && s.Same(*e.Slice) && (id == e.Lender || s.lender == e.ID) {
			return true
		}
	}
	return false
}
