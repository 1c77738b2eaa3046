package records

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/internal/errs"
)

// change changes the owner's record of an environment, and returns it as it is then.
func (s *Store) change(owner, ref string, fn func(*Record, Environment) error) (Environment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.Get(owner, ref)
	if err != nil {
		return Environment{}, err
	}
	hexPart, _ := blob.Hex(e.Digest)
	r, err := s.Load(owner, hexPart)
	if err != nil {
		return Environment{}, err
	}
	if err := fn(&r, e); err != nil {
		return Environment{}, err
	}
	if err := s.Save(r); err != nil {
		return Environment{}, s.dir.Explain(err, 0)
	}
	if len(r.Labels) == 0 {
		return e, nil
	}
	return s.Get(owner, ref)
}

// changeEntries changes what a reference means for each architecture, and returns the first.
func (s *Store) changeEntries(owner, ref string, fn func(*Record, Environment) error) (Environment, error) {
	found, err := s.Entries(Viewer{Owner: owner}, "", ref)
	if err != nil {
		return Environment{}, err
	}
	for i, e := range found {
		if i > 0 {
			ref, _ = splitArchitecture(ref)
			ref += "@" + e.Architecture()
		}
		changed, err := s.change(owner, ref, fn)
		if err != nil {
			return Environment{}, err
		}
		found[i] = changed
	}
	return found[0], nil
}

// Save writes a record, or removes one that no label is left of.
func (s *Store) Save(r Record) error {
	dir, name := s.dir.Path("records", libdir.Escape(r.Owner)), libdir.HexOrNone(r.Digest)+".json"
	if len(r.Labels) > 0 {
		return libdir.WriteJSON(dir, name, r)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return libdir.SyncDir(dir)
}

// Touch notes that an environment was looked up for a run, so that nothing removes it before the run is known, not even
// its owner.
func (s *Store) Touch(owner, digest string) error {
	_, err := s.change(owner, digest, func(r *Record, e Environment) error {
		s.keep(e.Digest)
		r.Used = s.now().UTC()
		return nil
	})
	return err
}

// Tag gives an environment a name, or another one.
func (s *Store) Tag(owner, ref, name, tag string) (Environment, error) {
	if name == "" {
		return Environment{}, errs.Bad("name", name, "give the new name, such as ana or ana:v2")
	}
	if err := (Label{Name: name, Tag: tag}).Validate(); err != nil {
		return Environment{}, err
	}
	var out Environment
	_, err := s.changeEntries(owner, ref, func(r *Record, e Environment) error {
		b := Label{Name: name, Tag: tag, Note: e.Note, Created: s.now().UTC(), Key: e.FromSession}
		if err := r.add(b); err != nil {
			return err
		}
		if out.Digest == "" {
			out = r.environment(b)
		}
		return nil
	})
	return out, err
}

// Removed says what came of removing an environment's name.
type Removed struct {
	Digest string
	Names  []string // that it still has, "name:tag"
}

// Remove takes a reference away from its owner: a name with its tag, or by a digest all that he has of an environment.
// A name that was moved does not come back to what had it before: that keeps its digest alone. The bytes go when
// nothing leads to them any more: no owner's record, no job and no session.
func (s *Store) Remove(owner, ref string) (Removed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.List(owner)
	if err != nil {
		return Removed{}, err
	}
	e, err := choose(all, ref)
	if err != nil {
		return Removed{}, err
	}
	r := removal{out: Removed{Digest: e.Digest}, holders: map[naming]string{}}
	if !e.called(ref) { // it was found by its digest
		r.whole = e.Digest
	} else if err := oneTag(all, ref); err != nil {
		return Removed{}, err
	}
	for _, o := range all {
		if !o.Moved && (o.called(ref) || o.Digest == r.whole) {
			r.holders[o.naming()] = o.Digest
		}
	}
	err = s.removeNames(owner, Once(all), &r)
	return r.out, err
}

// oneTag refuses a name alone that has been given with several tags.
func oneTag(all []Environment, ref string) error {
	var refs []string
	for _, e := range all {
		if e.called(ref) {
			refs = append(refs, e.Name+":"+e.Tag)
		}
	}
	slices.Sort(refs)
	if refs = slices.Compact(refs); len(refs) < 2 {
		return nil
	}
	remedy := "say which: " + strings.Join(refs, ", ")
	if strings.HasSuffix(refs[0], ":") {
		remedy += " (" + refs[0] + " is the one without a tag)"
	}
	return errs.Bad("environment", ref, remedy)
}

// removal is what is to be removed.
type removal struct {
	whole   string            // of this digest all; empty: of none
	holders map[naming]string // the digests that the names which go lead to
	out     Removed
}

// removeNames takes the names away: last from what they lead to, so that on the way there they never lead to anything
// else.
func (s *Store) removeNames(owner string, all []Environment, r *removal) error {
	holders := slices.Collect(maps.Values(r.holders))
	for _, holds := range []bool{false, true} {
		for _, e := range all {
			if holds != slices.Contains(holders, e.Digest) {
				continue
			}
			left, err := s.removeLabels(owner, e, r)
			if err != nil {
				return err
			}
			if e.Digest == r.out.Digest {
				r.out.Names = left
			}
		}
	}
	return nil
}

// removeLabels changes one record, and returns the names that are left.
func (s *Store) removeLabels(owner string, e Environment, r *removal) (left []string, err error) {
	rec, err := s.Load(owner, libdir.HexOrNone(e.Digest))
	if err != nil {
		return nil, err
	}
	had, changed := len(rec.Labels), false
	holder := func(b Label) string { return r.holders[naming{owner, b.Name, b.Tag, e.Architecture()}] }
	rec.Labels = slices.DeleteFunc(
		rec.Labels, func(b Label) bool { return e.Digest == r.whole || holder(b) == e.Digest },
	)
	for i, b := range rec.Labels {
		if b.Name != "" && holder(b) != "" {
			rec.Labels[i].Name, rec.Labels[i].Tag, changed = "", "", true
		} else if b.Name != "" {
			left = append(left, strings.TrimSuffix(b.Name+":"+b.Tag, ":"))
		}
	}
	if len(rec.Labels) == had && !changed {
		return left, nil
	}
	return left, s.Save(rec)
}

// History lists the environments that a name has stood for, or that came from the same session as ref, the newest
// first.
func (s *Store) History(owner, ref string) ([]Environment, error) {
	e, err := s.Get(owner, ref)
	if err != nil {
		return nil, err
	}
	all, err := s.List(owner)
	return slices.DeleteFunc(all, func(o Environment) bool {
		return o.FromSession != e.FromSession && (e.Name == "" || o.Name != e.Name)
	}), err
}

// Expire removes records without a name, of what is not shared, that were not used for as long as keep.
// What a job or a session uses now counts as used now.
func (s *Store) Expire(used map[string]bool, keep time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	err := s.each(func(r Record) {
		switch {
		case used[r.Digest]:
			r.Used = s.now().UTC()
		case r.named() || r.Share.With == Group || r.Share.With == Public || s.now().Sub(r.Used) < keep:
			return
		default:
			r.Labels = nil
		}
		err := s.Save(r)
		if len(r.Labels) == 0 && err == nil {
			s.log.Info("removed an environment without a name that nobody has used for long", "audit", "done", "action", "environments.expire",
				"owner", r.Owner, "environment", r.Digest, "used", r.Used)
		}
		failed = errors.Join(failed, err)
	})
	return errors.Join(err, failed)
}
