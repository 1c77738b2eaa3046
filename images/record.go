package images

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/internal/errs"
)

// Environment is an immutable file tree, as one owner knows it. A digest that an owner froze under several names is an
// Environment under each of them.
type Environment struct {
	Digest      string    `json:"digest"` // "sha256:..." of the SIF
	Owner       string    `json:"owner"`
	Name        string    `json:"name,omitempty"`
	Tag         string    `json:"tag,omitempty"`
	Note        string    `json:"note,omitempty"`
	Created     time.Time `json:"created"`
	FromSession string    `json:"fromSession"` // Key of the request
	Size        int64     `json:"size"`
	Base        Base      `json:"base"`
	Manifest    Manifest  `json:"manifest"`
	Unchanged   bool      `json:"unchanged,omitempty"` // the source had not changed since its last freeze
}

// record is what the library keeps for an owner and a digest.
type record struct {
	Owner    string   `json:"owner"`
	Digest   string   `json:"digest"`
	Size     int64    `json:"size"`
	Base     Base     `json:"base"`
	Manifest Manifest `json:"manifest"`
	Labels   []label  `json:"labels"`
}

// label is one freeze that gave the digest.
type label struct {
	Name    string    `json:"name,omitempty"`
	Tag     string    `json:"tag,omitempty"`
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Key     string    `json:"key"`
}

func (r record) environment(b label) Environment {
	return Environment{
		Digest: r.Digest, Owner: r.Owner, Name: b.Name, Tag: b.Tag, Note: b.Note, Created: b.Created, FromSession: b.Key,
		Size: r.Size, Base: r.Base, Manifest: r.Manifest,
	}
}

// decodeRecord reads a record and makes sure that it is the one that its place says.
func decodeRecord(data []byte, owner, hexPart string) (record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, err
	}
	if r.Owner != owner || r.Digest != digestPrefix+hexPart || len(r.Labels) == 0 {
		return record{}, errs.New(errs.Internal, "the record is of %.80q of %.80q", r.Digest, r.Owner)
	}
	return r, nil
}

func (l *Library) loadRecord(owner, hexPart string) (record, error) {
	path := l.path("records", escape(owner), hexPart+".json")
	data, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	r, err := decodeRecord(data, owner, hexPart)
	if err != nil {
		return record{}, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// List gives the owner's environments, the newest first. A record that cannot be read is logged and left out.
func (l *Library) List(owner string) ([]Environment, error) {
	files, err := os.ReadDir(l.path("records", escape(owner)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	var out []Environment
	for _, file := range files {
		hexPart, ok := strings.CutSuffix(file.Name(), ".json")
		if !ok || strings.HasPrefix(hexPart, temporary) {
			continue
		}
		r, err := l.loadRecord(owner, hexPart)
		if err != nil {
			l.log.Error("an environment's record cannot be read", "file", file.Name(), "error", err)
			continue
		}
		for _, b := range r.Labels {
			out = append(out, r.environment(b))
		}
	}
	slices.SortStableFunc(out, func(a, b Environment) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.Digest, b.Digest))
	})
	return out, nil
}

const minPrefix = 6

// Get finds one of the owner's environments by name:tag, name (the newest of either), digest, or a prefix of at least six
// hexadecimal digits. A name goes before a prefix that looks like it. What others own is not found.
func (l *Library) Get(owner, ref string) (Environment, error) {
	all, err := l.List(owner)
	if err != nil {
		return Environment{}, err
	}
	name, tag, tagged := strings.Cut(ref, ":")
	for _, e := range all {
		if e.Digest == ref || name != "" && e.Name == name && (!tagged || e.Tag == tag) {
			return e, nil
		}
	}
	return byPrefix(all, ref)
}

func byPrefix(all []Environment, ref string) (Environment, error) {
	prefix := strings.TrimPrefix(ref, digestPrefix)
	var found []Environment
	for _, e := range all {
		if len(prefix) < minPrefix || !strings.HasPrefix(e.Digest, digestPrefix+prefix) {
			continue
		}
		if len(found) == 0 || found[0].Digest != e.Digest {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return Environment{}, errs.New(errs.NotFound, "there is no environment %.80q of yours", ref).
			With("name it by its name, name:tag, digest or the first six or more digits of it")
	case 1:
		return found[0], nil
	default:
		return Environment{}, errs.Bad("environment", ref, fmt.Sprintf("%d environments begin so; give more digits", len(found)))
	}
}

// enter makes sure that the owner's references lead to what was frozen, and gives it as this request named it. Nothing is
// written when they do already.
func (l *Library) enter(req Request, f frozen) (Environment, error) {
	l.records.Lock()
	defer l.records.Unlock()
	hexPart, _ := digestHex(f.Digest)
	r, err := l.loadRecord(req.Owner, hexPart)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			l.log.Error("an environment's record is written anew", "digest", f.Digest, "error", err)
		}
		r = record{Owner: req.Owner, Digest: f.Digest, Size: f.Size, Base: f.Base, Manifest: f.Manifest}
	}
	if e, known := l.labelled(r, req); known {
		e.Unchanged = f.unchanged
		return e, nil
	}
	b := label{Name: req.Name, Tag: req.Tag, Note: req.Note, Created: time.Now().UTC(), Key: req.Key}
	r.Labels = append(r.Labels, b)
	if err := writeJSON(l.path("records", escape(req.Owner)), hexPart+".json", r); err != nil {
		return Environment{}, err
	}
	e := r.environment(b)
	e.Unchanged = f.unchanged
	return e, nil
}

// labelled finds the request's label in r, unless the name has moved on to another digest since.
func (l *Library) labelled(r record, req Request) (Environment, bool) {
	for _, b := range slices.Backward(r.Labels) {
		if b.Name != req.Name || b.Tag != req.Tag || b.Note != req.Note || b.Key != req.Key {
			continue
		}
		if req.Name == "" {
			return r.environment(b), true
		}
		e, err := l.Get(req.Owner, strings.TrimSuffix(req.Name+":"+req.Tag, ":"))
		return r.environment(b), err == nil && e.Digest == r.Digest
	}
	return Environment{}, false
}

// lastFreeze is what a source's last freeze found.
type lastFreeze struct {
	Owner    string   `json:"owner"`
	Key      string   `json:"key"`
	Identity string   `json:"identity"`
	Digest   string   `json:"digest"`
	Size     int64    `json:"size"`
	Base     Base     `json:"base"`
	Manifest Manifest `json:"manifest"`
}

func (l *Library) saveLast(req Request, id string, f frozen) error {
	return writeJSON(l.path("sources", escape(req.Owner)), escape(req.Key)+".json",
		lastFreeze{Owner: req.Owner, Key: req.Key, Identity: id, Digest: f.Digest, Size: f.Size, Base: f.Base, Manifest: f.Manifest})
}

// last gives what the source's last freeze made, when that is still what a freeze would make and its file is still there.
func (l *Library) last(req Request, id string) (frozen, bool) {
	data, err := os.ReadFile(l.path("sources", escape(req.Owner), escape(req.Key)+".json"))
	if err != nil {
		return frozen{}, false
	}
	var last lastFreeze
	if err := json.Unmarshal(data, &last); err != nil || last.Owner != req.Owner || last.Key != req.Key || last.Identity != id {
		return frozen{}, false
	}
	if st, err := os.Stat(l.blob(last.Digest)); err != nil || st.Size() != last.Size {
		return frozen{}, false
	}
	return frozen{Digest: last.Digest, Size: last.Size, Base: last.Base, Manifest: last.Manifest, unchanged: true}, true
}

const temporary = ".new-"

// writeJSON makes the file hold v, durably, or leaves it as it was.
func writeJSON(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name()))
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
