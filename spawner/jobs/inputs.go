package jobs

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/engine"
	"slipway/spawner/jobfiles"
)

// HasBlob reports whether the caller has put a file of this digest. One that is there stays for a day.
func (j *Jobs) HasBlob(_ context.Context, c spawner.Caller, digest string) bool {
	if !c.MaySubmit() {
		return false
	}
	_, found := j.engine.JobFiles().FindBlob(c.Principal(), digest)
	return found
}

// PutBlob keeps a file for the caller's jobs. It is there whole, and is what its digest says, or not at all.
func (j *Jobs) PutBlob(ctx context.Context, c spawner.Caller, digest string, r io.Reader) error {
	if !c.MaySubmit() {
		return errs.New(errs.Forbidden, "files for jobs are put by users, from outside or from a session")
	}
	if err := errors.Join(jobfiles.CheckDigest(digest), j.engine.Remembers()); err != nil {
		return err
	}
	o := c.Principal()
	if _, found := j.engine.JobFiles().FindBlob(o, digest); found {
		return nil
	}
	if err := j.afford(o, demand{bytes: 1}); err != nil {
		return err
	}
	return j.engine.JobFiles().PutBlob(ctx, o, digest, r)
}

// Blob opens a file that the caller has put. The caller closes it.
func (j *Jobs) Blob(_ context.Context, c spawner.Caller, digest string) (io.ReadCloser, error) {
	if !c.MaySubmit() {
		return nil, errs.New(errs.Forbidden, "files for jobs are users'")
	}
	return j.engine.JobFiles().OpenBlob(c.Principal(), digest)
}

// findBlobs returns where the files lie that a request names by their digests.
func (j *Jobs) findBlobs(c spawner.Caller, r submission) (map[string]string, error) {
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
		path, there := j.engine.JobFiles().FindBlob(o, digest)
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
func (j *Jobs) bundleFor(jobs []spawner.Workload, r submission) (spawner.ID, error) {
	if len(r.Files)+len(r.links) == 0 {
		return "", nil
	}
	b, fresh := r.bundle, r.bundle == ""
	if fresh {
		b = jobs[0].ID
	}
	if !j.holdBundle(b, fresh) {
		return "", errs.New(errs.Conflict, "the input files were removed just now, with the last job that had them").
			With("submit again, with its files")
	}
	for i := range jobs {
		jobs[i].Bundle = b
	}
	if !fresh {
		return b, nil
	}
	if err := j.engine.JobFiles().MakeBundle(b, r.Files, r.links); err != nil {
		j.letGo(b)
		return "", err
	}
	return b, nil
}

// holdBundle says that a submission needs a bundle, which is new or must be there. It reports false when it is not.
func (j *Jobs) holdBundle(b spawner.ID, fresh bool) bool {
	tx := j.engine.Begin()
	defer tx.End()
	if !fresh && !tx.Needed(b) {
		return false
	}
	tx.HoldBundle(b)
	return true
}

// letGo says that a submission needs a bundle no more; its jobs do, if it has come to any.
func (j *Jobs) letGo(b spawner.ID) {
	tx := j.engine.Begin()
	tx.ReleaseBundle(b)
	tx.End()
	j.engine.JobFiles().ClearBundle(b)
}

// kept returns what some jobs keep. Of input files that others have too they bear their part.
func (j *Jobs) kept(v engine.View, jobs []spawner.ID) (kept jobfiles.Size) {
	having := map[spawner.ID]int{}
	for _, id := range jobs {
		size := j.engine.JobFiles().SizeOf(id)
		kept.Files, kept.Bytes = kept.Files+size.Files, kept.Bytes+size.Bytes
		if b := v.Entry(id).Bundle; b != "" {
			having[b]++
		}
	}
	for b, n := range having {
		size := j.engine.JobFiles().SizeOfBundle(b)
		kept.Files, kept.Bytes = kept.Files+size.Files, kept.Bytes+size.Bytes*int64(n)/int64(v.JobsOfBundle(b))
	}
	return kept
}
