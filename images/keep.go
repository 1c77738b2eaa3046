package images

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	dir, name := l.path("records", escape(r.Owner)), hexOrNone(r.Digest)+".json"
	if len(r.Labels) > 0 {
		return writeJSON(dir, name, r)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return syncDir(dir)
}

// Touch notes that an environment was looked up for a run, so that nothing removes it before the run is known, not even its owner.
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

// Remove takes a reference away from its owner: a name with its tag, from all that it has stood for, or by a digest all that he has of
// an environment. The bytes go when nothing leads to them any more: no owner's record, no job and no session.
func (l *Library) Remove(owner, ref string) (Removed, error) {
	l.records.Lock()
	defer l.records.Unlock()
	e, err := l.Get(owner, ref)
	if err != nil {
		return Removed{}, err
	}
	rest, architecture := splitArchitecture(ref)
	name, tag, tagged := strings.Cut(rest, ":")
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
		if architecture == "" || o.Architecture() == architecture {
			digests[o.Digest] = true
		}
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
