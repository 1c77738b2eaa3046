package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/internal/errs"
)

// Content is what an environment is, whoever owns it.
type Content struct {
	Digest   string            `json:"digest"` // of the environment: "sha256:..."
	Size     int64             `json:"size"`   // of the SIF, unsigned
	Own      int64             `json:"own"`    // of that what is not the base's
	Base     manifest.Base     `json:"base"`
	Manifest manifest.Manifest `json:"manifest"`
}

// Environment is an immutable file tree, as one owner knows it. A digest that an owner froze under several names is an
// Environment under each of them.
type Environment struct {
	Content
	Owner       string    `json:"owner"`
	Name        string    `json:"name,omitempty"`
	Tag         string    `json:"tag,omitempty"`
	Note        string    `json:"note,omitempty"`
	Created     time.Time `json:"created"`     // when its owner first had it
	Named       time.Time `json:"named"`       // when it was given the name
	FromSession string    `json:"fromSession"` // Key of the request
	Share       Share     `json:"share"`
	Used        time.Time `json:"used"` // when it was last looked up for a run
	// The name and tag were given to another one since: its digest alone leads to it.
	Moved     bool          `json:"moved,omitempty"`
	Newest    bool          `json:"newest,omitempty"`    // the name without a tag leads to it
	Unchanged bool          `json:"unchanged,omitempty"` // the source had not changed since its last freeze
	Paused    time.Duration `json:"paused,omitempty"`    // how long the freeze that made it held its source still
	Use       Use           `json:"use"`
}

// Record is what the library keeps for an owner and a digest.
type Record struct {
	Content
	Owner  string    `json:"owner"`
	Labels []Label   `json:"labels"`
	Made   time.Time `json:"made,omitzero"` // when the owner first had it
	Share  Share     `json:"share"`
	Used   time.Time `json:"used"`
	Use    Use       `json:"use,omitzero"`
}

// Label is one freeze that gave the digest.
type Label struct {
	Name    string    `json:"name,omitempty"`
	Tag     string    `json:"tag,omitempty"`
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Key     string    `json:"key"`
}

// The bounds of what one owner may have written down: whoever lists what is shared with her reads the records of all.
const (
	maxLabels  = 200    // of one environment
	maxRecords = 10_000 // of one owner
)

// add gives an environment a label. Where there is no room for one more, the oldest goes that has no name, or whose
// name a later one has.
func (r *Record) add(b Label) error {
	if len(r.Labels) >= maxLabels {
		at := slices.IndexFunc(r.Labels, func(old Label) bool {
			same := func(o Label) bool { return o.Name == old.Name && o.Tag == old.Tag }
			return old.Name == "" || same(b) || slices.IndexFunc(r.Labels, same) < lastIndex(r.Labels, same)
		})
		if at < 0 {
			return errs.New(errs.OverQuota, "the environment %s has %d names already", r.Digest, len(r.Labels)).
				With("remove some with `slipway envs rm NAME:TAG`")
		}
		r.Labels = slices.Delete(r.Labels, at, at+1)
	}
	r.Labels = append(r.Labels, b)
	return nil
}

func lastIndex[T any](list []T, is func(T) bool) int {
	for i, x := range slices.Backward(list) {
		if is(x) {
			return i
		}
	}
	return -1
}

// fewEnough refuses an owner one environment more than anybody has use for.
func (s *Store) fewEnough(owner string) error {
	files, err := os.ReadDir(s.dir.Path("records", libdir.Escape(owner)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(files) >= maxRecords {
		return errs.New(errs.OverQuota, "you have %d environments, which is as many as anybody may have", len(files)).
			With("remove with `slipway envs rm` what nothing uses")
	}
	return nil
}

// named says whether a freeze, or somebody later, has given it a name.
func (r Record) named() bool {
	return slices.ContainsFunc(r.Labels, func(b Label) bool { return b.Name != "" })
}

func (r Record) environment(b Label) Environment {
	return Environment{
		Content: r.Content, Owner: r.Owner, Name: b.Name, Tag: b.Tag, Note: b.Note, Created: r.made(), Named: b.Created,
		FromSession: b.Key, Share: r.Share, Used: r.Used, Use: r.Use,
	}
}

// environments returns a record's environment under each of its names, as it was given last. Without a name it is there
// only when it has none.
func (r Record) environments() (out []Environment) {
	for i, b := range r.Labels {
		again := slices.ContainsFunc(r.Labels[i+1:], func(o Label) bool { return o.Name == b.Name && o.Tag == b.Tag })
		if !again && (b.Name != "" || !r.named()) {
			out = append(out, r.environment(b))
		}
	}
	return out
}

// made is when the owner first had the environment, as far as that is known.
func (r Record) made() time.Time {
	at := r.Made
	for _, b := range r.Labels {
		if at.IsZero() || b.Created.Before(at) {
			at = b.Created
		}
	}
	return at
}

// decodeRecord reads a record and makes sure that it is the one that its place says.
func decodeRecord(data []byte, owner, hexPart string) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, err
	}
	if r.Owner != owner || r.Digest != blob.Prefix+hexPart || len(r.Labels) == 0 {
		return Record{}, errs.New(errs.Internal, "the record is of %.80q of %.80q", r.Digest, r.Owner)
	}
	return r, nil
}

// decodeAnyRecord reads a record whose owner is known by the name of his directory.
func decodeAnyRecord(data []byte, dir, hexPart string) (Record, error) {
	var whose struct {
		Owner string `json:"owner"`
	}
	if err := json.Unmarshal(data, &whose); err != nil {
		return Record{}, err
	}
	if libdir.Escape(whose.Owner) != dir {
		return Record{}, errs.New(errs.Internal, "the record is of %.80q", whose.Owner)
	}
	return decodeRecord(data, whose.Owner, hexPart)
}

func (s *Store) Load(owner, hexPart string) (Record, error) {
	path := s.dir.Path("records", libdir.Escape(owner), hexPart+".json")
	return s.index.read(path, func(data []byte) (Record, error) {
		r, err := decodeRecord(data, owner, hexPart)
		if err != nil {
			err = fmt.Errorf("read %s: %w", path, err)
		}
		return r, err
	})
}

// Entry says what was frozen or brought, and what its owner calls it.
type Entry struct {
	Content
	Owner   string
	Label   Label
	Use     Use
	Paused  time.Duration
	Instead string // digest of an environment of the owner's whose place it takes; empty: of none
}

// Enter makes sure that the owner's references lead to an environment, and returns it under the entry's name. Nothing is
// written, and changed is false, when they do already. The caller holds the lock.
func (s *Store) Enter(n Entry) (e Environment, changed bool, err error) {
	hexPart, _ := blob.Hex(n.Digest)
	r, err := s.Load(n.Owner, hexPart)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.log.Error("an environment's record is written anew", "digest", n.Digest, "error", err)
		}
		// Others of the owner's may have been entered since the room was looked at.
		if _, err := s.Room(n.Owner, n.Instead, n.Digest, n.Own); err != nil {
			return Environment{}, false, err
		}
		if err := s.fewEnough(n.Owner); err != nil {
			return Environment{}, false, err
		}
		r = Record{
			Content: n.Content, Owner: n.Owner, Share: Share{Private, ""}, Made: s.now().UTC(),
		}
	}
	use, more := r.Use.and(n.Use)
	r.Use = use
	e, known := s.labelled(r, n.Label)
	if known && !more {
		return e, false, nil
	}
	if !known {
		r.Used = s.now().UTC()
		n.Label.Created = r.Used
		if err := r.add(n.Label); err != nil {
			return Environment{}, false, err
		}
		e = r.environment(n.Label)
		e.Paused = n.Paused
	}
	if err := s.Save(r); err != nil {
		return Environment{}, false, err
	}
	return e, true, nil
}

// labelled finds a label in r, unless the name has moved on to another digest since.
func (s *Store) labelled(r Record, want Label) (Environment, bool) {
	for _, b := range slices.Backward(r.Labels) {
		if b.Name != want.Name || b.Tag != want.Tag || b.Note != want.Note || b.Key != want.Key {
			continue
		}
		if want.Name == "" {
			return r.environment(b), true
		}
		own := r.environment(b)
		e, err := s.Get(r.Owner, strings.TrimSuffix(want.Name+":"+want.Tag, ":")+"@"+own.Architecture())
		return own, err == nil && e.Digest == r.Digest
	}
	return Environment{}, false
}
