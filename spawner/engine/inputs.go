package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// The input files of jobs that are submitted together lie once, in a bundle: a directory that all of them read, and those that are submitted
// anew from them. It bears the ID of the first job that had it, and is removed with the last one. What a service that was killed has left
// of one, no record names.

func (m *Manager) bundles() string {
	return filepath.Join(filepath.Dir(filepath.Clean(m.cfg.Dir)), "inputs")
}

func (m *Manager) bundle(b spawner.ID) string { return filepath.Join(m.bundles(), string(b)) }

// inputs returns where the input files of a job lie. Records of before have them in their own directories.
func (m *Manager) inputs(w spawner.Workload) string {
	if w.Bundle == "" {
		return filepath.Join(m.dir(w.ID), "inputs")
	}
	return m.bundle(w.Bundle)
}

// bundleFor gives jobs that are asked for together their input files: those that r has already, or a new bundle. Until it is let go, it
// stays whoever is removed.
func (m *Manager) bundleFor(jobs []spawner.Workload, r submission) (spawner.ID, error) {
	if len(r.Files)+len(r.links) == 0 {
		return "", nil
	}
	b, fresh := r.bundle, r.bundle == ""
	if fresh {
		b = jobs[0].ID
	}
	m.mu.Lock()
	gone := !fresh && !m.usedLocked(b)
	if !gone {
		m.held[b]++
	}
	m.mu.Unlock()
	if gone {
		return "", errs.New(errs.Conflict, "the input files were removed just now, with the last job that had them").With("submit again, with its files")
	}
	for i := range jobs {
		jobs[i].Bundle = b
	}
	if !fresh {
		return b, nil
	}
	if err := saveInputs(m.bundle(b), r); err != nil {
		m.letGo(b)
		return "", err
	}
	return b, nil
}

// saveInputs keeps the input files of a request in dir: its jobs may have to wait, the service may restart meanwhile, and they may be tried
// again.
func saveInputs(dir string, r submission) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep the input files: %w", err)
	}
	for name, content := range r.Files {
		if err := writeFile(filepath.Join(dir, name), bytes.NewReader(content)); err != nil {
			return fmt.Errorf("keep input file %s: %w", name, err)
		}
	}
	for name, path := range r.links {
		if err := linkFile(path, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("keep input file %s: %w", name, err)
		}
	}
	return nil
}

// letGo says that a submission needs a bundle no more; its jobs do, if it has come to any.
func (m *Manager) letGo(b spawner.ID) {
	m.mu.Lock()
	if m.held[b]--; m.held[b] <= 0 {
		delete(m.held, b)
	}
	m.mu.Unlock()
	m.clearBundle(b)
}

// usedLocked reports whether a job, or a submission that is under way, has a bundle.
func (m *Manager) usedLocked(b spawner.ID) bool { return m.index.bundles[b] > 0 || m.held[b] > 0 }

func (m *Manager) used(b spawner.ID) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.usedLocked(b)
}

// clearBundle removes a bundle that nobody has. Nobody will: who is to have it has it from one who does.
func (m *Manager) clearBundle(b spawner.ID) {
	if b == "" || m.used(b) {
		return
	}
	if err := os.RemoveAll(m.bundle(b)); err != nil {
		m.log.Warn("cannot remove input files that no job has", "bundle", b, "err", err)
	}
	m.dropBundle(b)
}

// dropBundle counts a bundle no more. What it had of files that were put, these bear alone.
func (m *Manager) dropBundle(b spawner.ID) {
	m.diskUsage.recount(spawner.ID(m.bundle(b)))
	m.diskUsage.drop(spawner.ID(m.bundle(b)))
}

// bundlePatience is for how long a bundle is seen that nobody has before it is removed: where records were lost, there is time to see it.
const bundlePatience = 5 * time.Minute

// expireBundles removes bundles that have been without a job for a while, at up on the service's own clock. idle are those that it has seen
// before, and when first; it gives those of now.
func (m *Manager) expireBundles(idle map[spawner.ID]time.Duration, up time.Duration) map[spawner.ID]time.Duration {
	now := map[spawner.ID]time.Duration{}
	entries, _ := os.ReadDir(m.bundles()) // made with the first
	for _, e := range entries {
		b := spawner.ID(e.Name())
		if m.used(b) {
			continue
		}
		since, seen := idle[b]
		if !seen {
			since = up
		}
		if now[b] = since; up-since >= bundlePatience {
			m.log.Warn("removing input files that no job has", "bundle", b)
			m.clearBundle(b)
		}
	}
	return now
}

// weighBundle counts what a bundle keeps, once for all that have it.
func (m *Manager) weighBundle(b spawner.ID, o spawner.Principal) {
	g := goods{of: o}
	entries, _ := os.ReadDir(m.bundle(b))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			g.files, g.bytes = g.files+1, g.bytes+shareOf(info)
		}
	}
	if m.diskUsage.note(spawner.ID(m.bundle(b)), g); !m.used(b) { // it was cleared meanwhile
		m.diskUsage.drop(spawner.ID(m.bundle(b)))
	}
}

// bundleOwners returns all bundles that jobs have, and whose they are.
func (m *Manager) bundleOwners() map[spawner.ID]spawner.Principal {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := map[spawner.ID]spawner.Principal{}
	for _, e := range m.work {
		if e.Bundle != "" {
			all[e.Bundle] = e.Principal()
		}
	}
	return all
}

// keptLocked returns what some jobs keep. Of input files that others have too they bear their part.
func (m *Manager) keptLocked(jobs []spawner.ID) goods {
	g, having := m.diskUsage.goods(jobs), map[spawner.ID]int{}
	for _, id := range jobs {
		if b := m.work[id].Bundle; b != "" {
			having[b]++
		}
	}
	for b, n := range having {
		all := m.diskUsage.goods([]spawner.ID{spawner.ID(m.bundle(b))})
		g.files, g.bytes = g.files+all.files, g.bytes+all.bytes*int64(n)/int64(m.index.bundles[b])
	}
	return g
}

// keepsInputs refuses what needs input files that are not there any more: until lately they were dropped with a job's end.
func (m *Manager) keepsInputs(w spawner.Workload) error {
	for _, name := range w.Spec.Inputs {
		if _, err := os.Lstat(filepath.Join(m.inputs(w), name)); errors.Is(err, os.ErrNotExist) {
			return errs.New(errs.Conflict, "input file %s of job %s is not kept any more", name, w.ID).With("submit it again, with its files")
		} else if err != nil {
			return fmt.Errorf("look at input file %s of job %s: %w", name, w.ID, err)
		}
	}
	return nil
}
