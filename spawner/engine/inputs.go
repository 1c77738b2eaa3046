package engine

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/jobfiles"
	"slipway/spawner/sched"
)

// HasBlob reports whether the caller has put a file of this digest. One that is there stays for a day.
func (m *Manager) HasBlob(_ context.Context, c spawner.Caller, digest string) bool {
	if !c.MaySubmit() {
		return false
	}
	_, found := m.files.FindBlob(c.Principal(), digest)
	return found
}

// PutBlob keeps a file for the caller's jobs. It is there whole, and is what its digest says, or not at all.
func (m *Manager) PutBlob(ctx context.Context, c spawner.Caller, digest string, r io.Reader) error {
	if !c.MaySubmit() {
		return errs.New(errs.Forbidden, "files for jobs are put by users, from outside or from a session")
	}
	if err := errors.Join(jobfiles.CheckDigest(digest), m.remembers()); err != nil {
		return err
	}
	o := c.Principal()
	if _, found := m.files.FindBlob(o, digest); found {
		return nil
	}
	if err := m.afford(o, demand{bytes: 1}); err != nil {
		return err
	}
	return m.files.PutBlob(ctx, o, digest, r)
}

// Blob opens a file that the caller has put. The caller closes it.
func (m *Manager) Blob(_ context.Context, c spawner.Caller, digest string) (io.ReadCloser, error) {
	if !c.MaySubmit() {
		return nil, errs.New(errs.Forbidden, "files for jobs are users'")
	}
	return m.files.OpenBlob(c.Principal(), digest)
}

// findBlobs returns where the files lie that a request names by their digests.
func (m *Manager) findBlobs(c spawner.Caller, r submission) (map[string]string, error) {
	if len(r.Blobs) == 0 {
		return r.links, nil
	}
	o, found := c.Principal(), maps.Clone(r.links)
	if found == nil {
		found = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Blobs)) {
		digest := r.Blobs[name]
		if err := errors.Join(jobfiles.CheckInputName(name), jobfiles.CheckDigest(digest)); err != nil {
			return nil, err
		}
		if _, twice := r.Files[name]; twice {
			return nil, errs.Bad("blobs", name, "another name: files has one of this name too")
		}
		path, there := m.files.FindBlob(o, digest)
		if !there {
			return nil, errs.New(errs.NotFound, "input file %s: you have put no file %s", name, digest).
				With("put it first, then submit again")
		}
		found[name] = path
	}
	return found, nil
}

// bundleFor gives jobs that are asked for together their input files: those that r has already, or a new bundle. Until
// it is let go, it stays whoever is removed.
func (m *Manager) bundleFor(jobs []spawner.Workload, r submission) (spawner.ID, error) {
	if len(r.Files)+len(r.links) == 0 {
		return "", nil
	}
	b, fresh := r.bundle, r.bundle == ""
	if fresh {
		b = jobs[0].ID
	}
	tx := m.Begin()
	gone := !fresh && !tx.needed(b)
	if !gone {
		m.held[b]++
	}
	tx.End()
	if gone {
		return "", errs.New(errs.Conflict, "the input files were removed just now, with the last job that had them").
			With("submit again, with its files")
	}
	for i := range jobs {
		jobs[i].Bundle = b
	}
	if !fresh {
		return b, nil
	}
	if err := m.files.MakeBundle(b, r.Files, r.links); err != nil {
		m.letGo(b)
		return "", err
	}
	return b, nil
}

// letGo says that a submission needs a bundle no more; its jobs do, if it has come to any.
func (m *Manager) letGo(b spawner.ID) {
	tx := m.Begin()
	if m.held[b]--; m.held[b] <= 0 {
		delete(m.held, b)
	}
	tx.End()
	m.files.ClearBundle(b)
}

// needed reports whether a job, or a submission that is under way, has a bundle.
func (v View) needed(b spawner.ID) bool { return v.m.index.bundles[b] > 0 || v.m.held[b] > 0 }

// newFiles makes the Store of the jobs' files, which asks for what the records say.
func (m *Manager) newFiles() *jobfiles.Store {
	return jobfiles.New(jobfiles.Config{
		Dir: m.cfg.Dir, Output: m.cfg.Output, Room: m.cfg.Room, HasRecord: m.knows, Owners: m.fileOwners, Logger: m.log,
		Needed: func(b spawner.ID) bool {
			v := m.View()
			defer v.End()
			return v.needed(b)
		},
		Quota: func(o spawner.Principal) int64 {
			v := m.View()
			defer v.End()
			return m.sched.Allowance(o).Storage
		},
		Refused: func() {
			tx := m.Begin()
			defer tx.End()
			m.refused[sched.RefusedStorage]++
		},
	})
}

// fileOwners returns all jobs and their bundles, and whose they are.
func (m *Manager) fileOwners() (jobs, bundles map[spawner.ID]spawner.Principal) {
	v := m.View()
	defer v.End()
	jobs, bundles = map[spawner.ID]spawner.Principal{}, map[spawner.ID]spawner.Principal{}
	for id, e := range m.work {
		if e.Kind == spawner.Job {
			jobs[id] = e.Principal()
		}
		if e.Bundle != "" {
			bundles[e.Bundle] = e.Principal()
		}
	}
	return jobs, bundles
}

// kept returns what some jobs keep. Of input files that others have too they bear their part.
func (v View) kept(jobs []spawner.ID) (kept jobfiles.Size) {
	having := map[spawner.ID]int{}
	for _, id := range jobs {
		size := v.m.files.SizeOf(id)
		kept.Files, kept.Bytes = kept.Files+size.Files, kept.Bytes+size.Bytes
		if b := v.m.work[id].Bundle; b != "" {
			having[b]++
		}
	}
	for b, n := range having {
		size := v.m.files.SizeOfBundle(b)
		kept.Files, kept.Bytes = kept.Files+size.Files, kept.Bytes+size.Bytes*int64(n)/int64(v.m.index.bundles[b])
	}
	return kept
}
