package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
)

const (
	// tidyEvery is how often the library is tidied up.
	tidyEvery = time.Hour
	// grace is how long nothing is removed after its last use: a job that has just been given an environment is saved by then.
	grace = 15 * time.Minute
)

// change changes the owner's record of an environment, and gives it as it is then.
func (l *Library) change(owner, ref string, fn func(*record, Environment) error) (Environment, error) {
	l.records.Lock()
	defer l.records.Unlock()
	e, err := l.Get(owner, ref)
	if err != nil {
		return Environment{}, err
	}
	hexPart, _ := digestHex(e.Digest)
	r, err := l.loadRecord(owner, hexPart)
	if err != nil {
		return Environment{}, err
	}
	if err := fn(&r, e); err != nil {
		return Environment{}, err
	}
	if err := l.saveRecord(r); err != nil {
		return Environment{}, l.explain(err, 0)
	}
	if len(r.Labels) == 0 {
		return e, nil
	}
	return l.Get(owner, ref)
}

// saveRecord writes a record, or removes one that no label is left of.
func (l *Library) saveRecord(r record) error {
	dir, name := l.path("records", escape(r.Owner)), hexOrNone(r.Digest)+".json"
	if len(r.Labels) > 0 {
		return writeJSON(dir, name, r)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(dir)
}

// Touch notes that an environment was looked up for a run, so that nothing removes it before the run is known.
func (l *Library) Touch(owner, digest string) error {
	_, err := l.change(owner, digest, func(r *record, _ Environment) error {
		r.Used = l.cfg.Now().UTC()
		return nil
	})
	return err
}

// Tag gives an environment a name, or another one.
func (l *Library) Tag(owner, ref, name, tag string) (Environment, error) {
	if name == "" {
		return Environment{}, errs.Bad("name", name, "give the new name, such as ana or ana:v2")
	}
	if err := (label{Name: name, Tag: tag}).validate(); err != nil {
		return Environment{}, err
	}
	var out Environment
	_, err := l.change(owner, ref, func(r *record, e Environment) error {
		b := label{Name: name, Tag: tag, Note: e.Note, Created: l.cfg.Now().UTC(), Key: e.FromSession}
		r.Labels = append(r.Labels, b)
		out = r.environment(b)
		return nil
	})
	return out, err
}

// Removed says what came of removing an environment's name.
type Removed struct {
	Digest string
	Names  []string // that it still has, "name:tag"
}

// Remove takes a reference away from its owner: a name with its tag, from all that it has stood for, or by a digest all that he has of
// an environment. The bytes go when nothing leads to them any more: no owner's record, no job and no session.
func (l *Library) Remove(owner, ref string) (Removed, error) {
	l.records.Lock()
	defer l.records.Unlock()
	e, err := l.Get(owner, ref)
	if err != nil {
		return Removed{}, err
	}
	name, tag, tagged := strings.Cut(ref, ":")
	gone := func(b label, digest string) bool { return b.Name == name && b.Tag == tag }
	if e.Name != name { // it was found by its digest
		gone = func(_ label, digest string) bool { return digest == e.Digest }
	} else if tags, err := l.tags(owner, name); err != nil || len(tags) > 1 && !tagged {
		return Removed{}, errors.Join(err, errs.Bad("environment", ref, "give a tag: there are "+strings.Join(tags, ", ")))
	} else if !tagged {
		gone = func(b label, _ string) bool { return b.Name == name }
	}
	all, err := l.List(owner)
	if err != nil {
		return Removed{}, err
	}
	digests := map[string]bool{}
	for _, o := range all {
		digests[o.Digest] = true
	}
	out := Removed{Digest: e.Digest}
	for digest := range digests {
		left, err := l.strike(owner, digest, gone)
		if err != nil {
			return out, err
		}
		if digest == e.Digest {
			out.Names = left
		}
	}
	return out, nil
}

// strike takes labels out of a record and gives the names that are left.
func (l *Library) strike(owner, digest string, gone func(b label, digest string) bool) (left []string, err error) {
	r, err := l.loadRecord(owner, hexOrNone(digest))
	if err != nil {
		return nil, err
	}
	before := len(r.Labels)
	r.Labels = slices.DeleteFunc(r.Labels, func(b label) bool { return gone(b, digest) })
	for _, b := range r.Labels {
		if b.Name != "" {
			left = append(left, strings.TrimSuffix(b.Name+":"+b.Tag, ":"))
		}
	}
	if len(r.Labels) == before {
		return left, nil
	}
	return left, l.saveRecord(r)
}

// tags gives the tags that a name has, "none" for the label without one.
func (l *Library) tags(owner, name string) ([]string, error) {
	all, err := l.List(owner)
	var out []string
	for _, e := range all {
		if e.Name == name {
			out = append(out, cmp.Or(e.Tag, "none"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// History lists the environments that a name has stood for, or that came from the same session as ref, the newest first.
func (l *Library) History(owner, ref string) ([]Environment, error) {
	e, err := l.Get(owner, ref)
	if err != nil {
		return nil, err
	}
	all, err := l.List(owner)
	return slices.DeleteFunc(all, func(o Environment) bool {
		return o.FromSession != e.FromSession && (e.Name == "" || o.Name != e.Name)
	}), err
}

// Usage says what an owner's environments take.
type Usage struct {
	Environments int
	Own          int64 // bytes that no base has; each environment counted once
	Shared       int64 // bytes of the bases under them, each counted once; others may stand on them too
	Quota        int64 // 0: no bound
}

// Usage adds up what an owner has.
func (l *Library) Usage(owner string) (Usage, error) {
	all, err := l.List(owner)
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Quota: l.cfg.Quota}
	seen, bases := map[string]bool{}, map[string]bool{}
	for _, e := range all {
		if seen[e.Digest] {
			continue
		}
		seen[e.Digest] = true
		u.Environments++
		u.Own += e.Own
		if d, err := l.document(e.Digest); err == nil && d.Base != nil && !bases[d.Base.Digest] {
			bases[d.Base.Digest] = true
			u.Shared += d.Base.Size
		}
	}
	return u, nil
}

// roomFor refuses a freeze of an owner who has used up his quota.
func (l *Library) roomFor(owner string) error {
	if l.cfg.Quota == 0 {
		return nil
	}
	u, err := l.Usage(owner)
	if err != nil {
		return err
	}
	if u.Own >= l.cfg.Quota {
		return errs.New(errs.OverQuota, "your environments take %d MB of the %d MB that you may use", u.Own>>20, u.Quota>>20).
			With("remove some with `slipway envs rm`; `slipway envs du` shows what takes how much")
	}
	return nil
}

// Swept says what a sweep removed, or would.
type Swept struct {
	Environments []string // digests
	Bases        []string // digests
	Bytes        int64
}

// tidy lets go of what was kept long enough, and sweeps.
func (l *Library) tidy(ctx context.Context) error {
	if err := l.expire(); err != nil {
		return err
	}
	_, err := l.Sweep(ctx, false)
	return err
}

// expire removes records without a name that were not used for as long as the site keeps them.
func (l *Library) expire() error {
	if l.cfg.Keep == 0 {
		return nil
	}
	l.records.Lock()
	defer l.records.Unlock()
	var failed error
	err := l.eachRecord(func(r record) {
		named := slices.ContainsFunc(r.Labels, func(b label) bool { return b.Name != "" })
		if named || l.cfg.Now().Sub(r.Used) < l.cfg.Keep {
			return
		}
		r.Labels = nil
		failed = errors.Join(failed, l.saveRecord(r))
	})
	return errors.Join(err, failed)
}

// Sweep removes the files of environments that no record, job or session leads to, and bases that no environment stands on and
// that were not used lately. dry only tells.
func (l *Library) Sweep(ctx context.Context, dry bool) (Swept, error) {
	needed := map[string]bool{}
	if l.cfg.InUse != nil {
		used, err := l.cfg.InUse(ctx)
		if err != nil {
			return Swept{}, fmt.Errorf("sweep: what is in use is not known: %w", err)
		}
		for _, digest := range used {
			needed[digest] = true
		}
	}
	l.records.Lock()
	defer l.records.Unlock()
	if err := l.eachRecord(func(r record) { needed[r.Digest] = true }); err != nil {
		return Swept{}, err
	}
	var out Swept
	bases, err := l.sweepEnvironments(needed, dry, &out)
	if err != nil {
		return out, err
	}
	return out, l.sweepBases(bases, dry, &out)
}

// sweepEnvironments gives the bases that are needed by what stays.
func (l *Library) sweepEnvironments(needed map[string]bool, dry bool, out *Swept) (bases map[string]bool, err error) {
	bases = map[string]bool{}
	files, err := filepath.Glob(l.path("blobs", "*.sif"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		hexPart := strings.TrimSuffix(filepath.Base(path), ".sif")
		digest := digestPrefix + hexPart
		st, err := os.Stat(path)
		if err != nil {
			continue
		}
		if needed[digest] || l.cfg.Now().Sub(st.ModTime()) < grace {
			if d, err := l.document(digest); err == nil && d.Base != nil {
				bases[d.Base.Digest] = true
			}
			continue
		}
		out.Environments, out.Bytes = append(out.Environments, digest), out.Bytes+st.Size()
		if dry {
			continue
		}
		if err := l.removeEnvironment(hexPart); err != nil {
			return nil, err
		}
		l.log.Info("removed an environment that nothing leads to", "digest", digest, "bytes", st.Size())
	}
	return bases, nil
}

// removeEnvironment removes the document first: without it nobody finds the rest, and a sweep that was interrupted goes on.
func (l *Library) removeEnvironment(hexPart string) error {
	for _, path := range []string{
		l.path("documents", hexPart+".json"), l.path("facts", hexPart+".json"), l.path("statements", hexPart), l.path("blobs", hexPart+".sif"),
	} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// keepBase is how long a base that nothing stands on is kept after it was made: the next freeze may want it.
const keepBase = 30 * 24 * time.Hour

func (l *Library) sweepBases(needed map[string]bool, dry bool, out *Swept) error {
	files, err := filepath.Glob(l.path("bases", "*.sqfs"))
	if err != nil {
		return err
	}
	for _, path := range files {
		digest := digestPrefix + strings.TrimSuffix(filepath.Base(path), ".sqfs")
		st, err := os.Stat(path)
		if err != nil || needed[digest] || l.cfg.Now().Sub(st.ModTime()) < keepBase {
			continue
		}
		out.Bases, out.Bytes = append(out.Bases, digest), out.Bytes+st.Size()
		if dry {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		l.log.Info("removed a base that nothing stands on", "digest", digest, "bytes", st.Size())
	}
	return nil
}
