package records

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
func (s *Store) SetShare(v Viewer, ref string, share Share) (Environment, error) {
	switch {
	case share.With != Private && share.With != Group && share.With != Public:
		return Environment{}, errs.Bad("with", beginning(string(share.With)), "private, group or public")
	case share.With == Group && !slices.Contains(v.Groups, share.Group):
		return Environment{}, errs.Bad(
			"group", beginning(share.Group), fmt.Sprintf("one of yours: %s", orNone(v.Groups)),
		)
	case share.With != Group && share.Group != "":
		return Environment{}, errs.Bad("group", beginning(share.Group), "left out unless it is shared with a group")
	}
	return s.changeEntries(v.Owner, ref, func(r *Record, _ Environment) error {
		r.Share = share
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
func (s *Store) Find(v Viewer, owner, ref string) (Environment, error) {
	if owner != "" && owner != v.Owner {
		return s.shared(v, owner, ref)
	}
	e, err := s.Get(v.Owner, ref)
	if hexPart, whole := blob.Hex(ref); whole && errs.Is(err, errs.NotFound) {
		if e, ok := s.sharedDigest(v, hexPart); ok {
			return e, nil
		}
	}
	return e, err
}

// shared looks among what another owner shares with the viewer. What is not shared is as if it were not there.
func (s *Store) shared(v Viewer, owner, ref string) (Environment, error) {
	all, err := s.visible(v, owner)
	if err != nil {
		return Environment{}, err
	}
	return choose(all, ref)
}

func (s *Store) sharedDigest(v Viewer, hexPart string) (Environment, bool) {
	for _, r := range s.Of(hexPart) {
		if e, err := s.shared(v, r.Owner, r.Digest); err == nil {
			return e, true
		}
	}
	return Environment{}, false
}

// Shared lists what others share with the viewer, the newest first.
func (s *Store) Shared(v Viewer) ([]Environment, error) {
	all, err := s.Everyones()
	return slices.DeleteFunc(all, func(e Environment) bool { return e.Owner == v.Owner || !v.Sees(e) }), err
}

// Everyones lists the environments of all owners, the newest first.
func (s *Store) Everyones() ([]Environment, error) {
	var out []Environment
	err := s.each(func(r Record) { out = append(out, r.environments()...) })
	inOrder(out)
	return out, err
}

// each calls fn for all records of all owners. What cannot be read is logged and passed over.
func (s *Store) each(fn func(Record)) error {
	files, err := filepath.Glob(s.dir.Path("records", "*", "*.json"))
	if err != nil {
		return err
	}
	for _, path := range files {
		if r, ok := s.readRecord(path); ok {
			fn(r)
		}
	}
	return nil
}

// Of returns every owner's record of a digest.
func (s *Store) Of(hexPart string) []Record {
	files, _ := filepath.Glob(s.dir.Path("records", "*", hexPart+".json"))
	var out []Record
	for _, path := range files {
		if r, ok := s.readRecord(path); ok {
			out = append(out, r)
		}
	}
	return out
}

func (s *Store) readRecord(path string) (Record, bool) {
	r, err := s.index.read(path, func(data []byte) (Record, error) {
		return decodeAnyRecord(
			data, filepath.Base(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".json"),
		)
	})
	if errors.Is(err, os.ErrNotExist) {
		return Record{}, false
	}
	if err != nil {
		s.log.Error("an environment's record cannot be read", "file", path, "error", err)
		return Record{}, false
	}
	return r, true
}
