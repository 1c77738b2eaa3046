package images

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/internal/errs"
)

// change changes the owner's record of an environment, and gives it as it is then.
func (l *Library) change(owner, ref string, fn func(*record, Environment) error) (Environment, error) {
	l.records.Lock()
	defer l.records.Unlock()
	e, err := l.Get(owner, ref)
	if err != nil {
		return Environment{}, err
	}
	hexPart, _ := blob.Hex(e.Digest)
	r, err := l.loadRecord(owner, hexPart)
	if err != nil {
		return Environment{}, err
	}
	if err := fn(&r, e); err != nil {
		return Environment{}, err
	}
	if err := l.saveRecord(r); err != nil {
		return Environment{}, l.dir.Explain(err, 0)
	}
	if len(r.Labels) == 0 {
		return e, nil
	}
	return l.Get(owner, ref)
}

// changeEntries changes what a reference means for each architecture, and gives the first.
func (l *Library) changeEntries(owner, ref string, fn func(*record, Environment) error) (Environment, error) {
	found, err := l.Entries(Viewer{Owner: owner}, "", ref)
	if err != nil {
		return Environment{}, err
	}
	for i, e := range found {
		if i > 0 {
			ref, _ = splitArchitecture(ref)
			ref += "@" + e.Architecture()
		}
		changed, err := l.change(owner, ref, fn)
		if err != nil {
			return Environment{}, err
		}
		found[i] = changed
	}
	return found[0], nil
}

// saveRecord writes a record, or removes one that no label is left of.
func (l *Library) saveRecord(r record) error {
	dir, name := l.dir.Path("records", libdir.Escape(r.Owner)), libdir.HexOrNone(r.Digest)+".json"
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
func (l *Library) Touch(owner, digest string) error {
	_, err := l.change(owner, digest, func(r *record, e Environment) error {
		l.keepFor(e.Digest, grace)
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
	_, err := l.changeEntries(owner, ref, func(r *record, e Environment) error {
		b := label{Name: name, Tag: tag, Note: e.Note, Created: l.cfg.Now().UTC(), Key: e.FromSession}
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
func (l *Library) Remove(owner, ref string) (Removed, error) {
	l.records.Lock()
	defer l.records.Unlock()
	all, err := l.List(owner)
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
	err = l.strike(owner, once(all), &r)
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

// strike takes the names away: last from what they lead to, so that on the way there they never lead to anything else.
func (l *Library) strike(owner string, all []Environment, r *removal) error {
	holders := slices.Collect(maps.Values(r.holders))
	for _, holds := range []bool{false, true} {
		for _, e := range all {
			if holds != slices.Contains(holders, e.Digest) {
				continue
			}
			left, err := l.strikeOut(owner, e, r)
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

// strikeOut changes one record, and gives the names that are left.
func (l *Library) strikeOut(owner string, e Environment, r *removal) (left []string, err error) {
	rec, err := l.loadRecord(owner, libdir.HexOrNone(e.Digest))
	if err != nil {
		return nil, err
	}
	had, changed := len(rec.Labels), false
	holder := func(b label) string { return r.holders[naming{owner, b.Name, b.Tag, e.Architecture()}] }
	rec.Labels = slices.DeleteFunc(rec.Labels, func(b label) bool { return e.Digest == r.whole || holder(b) == e.Digest })
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
	return left, l.saveRecord(rec)
}

// History lists the environments that a name has stood for, or that came from the same session as ref, the newest
// first.
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
