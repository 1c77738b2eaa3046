package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"slipway/images/blob"
	"slipway/internal/errs"
)

// Audience is who may see and run an environment beside its owner.
type Audience string

// The audiences.
const (
	Private Audience = "private" // nobody
	Group   Audience = "group"   // the members of one group
	Public  Audience = "public"  // every user of the service
)

// Share is an owner's word on who else may use an environment.
type Share struct {
	With  Audience `json:"with"`
	Group string   `json:"group,omitempty"` // of audience Group
}

// Viewer is who looks for environments.
type Viewer struct {
	Owner  string   // the word by which he owns his own
	Groups []string // that he is a member of
}

// Sees says whether the viewer may use an environment: his own, or one that is shared with him.
func (v Viewer) Sees(e Environment) bool {
	s := e.Share
	return e.Owner == v.Owner || s.With == Public || s.With == Group && slices.Contains(v.Groups, s.Group)
}

// SetShare says who else may use one of the owner's environments. Jobs and sessions that were started before go on.
func (l *Library) SetShare(v Viewer, ref string, s Share) (Environment, error) {
	switch {
	case s.With != Private && s.With != Group && s.With != Public:
		return Environment{}, errs.Bad("with", beginning(string(s.With)), "private, group or public")
	case s.With == Group && !slices.Contains(v.Groups, s.Group):
		return Environment{}, errs.Bad("group", beginning(s.Group), fmt.Sprintf("one of yours: %s", orNone(v.Groups)))
	case s.With != Group && s.Group != "":
		return Environment{}, errs.Bad("group", beginning(s.Group), "left out unless it is shared with a group")
	}
	return l.changeEntries(v.Owner, ref, func(r *record, _ Environment) error {
		r.Share = s
		return nil
	})
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "you are in none"
	}
	return strings.Join(list, ", ")
}

// Find returns an environment that the viewer may use: one of his own, or one that its owner shares with him. owner is
// the other's word, empty for the viewer's own. A whole digest is found whoever shares it.
func (l *Library) Find(v Viewer, owner, ref string) (Environment, error) {
	if owner != "" && owner != v.Owner {
		return l.shared(v, owner, ref)
	}
	e, err := l.Get(v.Owner, ref)
	if hexPart, whole := blob.Hex(ref); whole && errs.Is(err, errs.NotFound) {
		if e, ok := l.sharedDigest(v, hexPart); ok {
			return e, nil
		}
	}
	return e, err
}

// shared looks among what another owner shares with the viewer. What is not shared is as if it were not there.
func (l *Library) shared(v Viewer, owner, ref string) (Environment, error) {
	all, err := l.visible(v, owner)
	if err != nil {
		return Environment{}, err
	}
	return choose(all, ref)
}

func (l *Library) sharedDigest(v Viewer, hexPart string) (Environment, bool) {
	for _, r := range l.recordsOf(hexPart) {
		if e, err := l.shared(v, r.Owner, r.Digest); err == nil {
			return e, true
		}
	}
	return Environment{}, false
}

// Shared lists what others share with the viewer, the newest first.
func (l *Library) Shared(v Viewer) ([]Environment, error) {
	all, err := l.Everyones()
	return slices.DeleteFunc(all, func(e Environment) bool { return e.Owner == v.Owner || !v.Sees(e) }), err
}

// eachRecord calls fn for all records of all owners. What cannot be read is logged and passed over.
func (l *Library) eachRecord(fn func(record)) error {
	files, err := filepath.Glob(l.dir.Path("records", "*", "*.json"))
	if err != nil {
		return err
	}
	for _, path := range files {
		if r, ok := l.readRecord(path); ok {
			fn(r)
		}
	}
	return nil
}

// recordsOf returns every owner's record of a digest.
func (l *Library) recordsOf(hexPart string) []record {
	files, _ := filepath.Glob(l.dir.Path("records", "*", hexPart+".json"))
	var out []record
	for _, path := range files {
		if r, ok := l.readRecord(path); ok {
			out = append(out, r)
		}
	}
	return out
}

func (l *Library) readRecord(path string) (record, bool) {
	r, err := l.index.read(path, func(data []byte) (record, error) {
		return decodeAnyRecord(data, filepath.Base(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".json"))
	})
	if errors.Is(err, os.ErrNotExist) {
		return record{}, false
	}
	if err != nil {
		l.log.Error("an environment's record cannot be read", "file", path, "error", err)
		return record{}, false
	}
	return r, true
}
