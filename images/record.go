package images

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
	"slipway/internal/errs"
)

// Environment is an immutable file tree, as one owner knows it. A digest that an owner froze under several names is an
// Environment under each of them.
type Environment struct {
	Digest      string        `json:"digest"` // "sha256:..." of the SIF
	Owner       string        `json:"owner"`
	Name        string        `json:"name,omitempty"`
	Tag         string        `json:"tag,omitempty"`
	Note        string        `json:"note,omitempty"`
	Created     time.Time     `json:"created"`     // when its owner first had it
	Named       time.Time     `json:"named"`       // when it was given the name
	FromSession string        `json:"fromSession"` // Key of the request
	Size        int64         `json:"size"`        // of the SIF, unsigned
	Own         int64         `json:"own"`         // of that what is not the base's
	Base        Base          `json:"base"`
	Manifest    Manifest      `json:"manifest"`
	Share       Share         `json:"share"`
	Used        time.Time     `json:"used"`                // when it was last looked up for a run
	Moved       bool          `json:"moved,omitempty"`     // the name and tag were given to another one since: its digest alone leads to it
	Newest      bool          `json:"newest,omitempty"`    // the name without a tag leads to it
	Unchanged   bool          `json:"unchanged,omitempty"` // the source had not changed since its last freeze
	Paused      time.Duration `json:"paused,omitempty"`    // how long the freeze that made it held its source still
	Use         Use           `json:"use"`
}

// record is what the library keeps for an owner and a digest.
type record struct {
	Owner    string    `json:"owner"`
	Digest   string    `json:"digest"`
	Size     int64     `json:"size"`
	Own      int64     `json:"own"`
	Base     Base      `json:"base"`
	Manifest Manifest  `json:"manifest"`
	Labels   []label   `json:"labels"`
	Made     time.Time `json:"made,omitzero"` // when the owner first had it
	Share    Share     `json:"share"`
	Used     time.Time `json:"used"`
	Use      Use       `json:"use,omitzero"`
}

// label is one freeze that gave the digest.
type label struct {
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
func (r *record) add(b label) error {
	if len(r.Labels) >= maxLabels {
		at := slices.IndexFunc(r.Labels, func(old label) bool {
			same := func(o label) bool { return o.Name == old.Name && o.Tag == old.Tag }
			return old.Name == "" || same(b) || slices.IndexFunc(r.Labels, same) < lastIndex(r.Labels, same)
		})
		if at < 0 {
			return errs.New(errs.OverQuota, "the environment %s has %d names already", r.Digest, len(r.Labels)).With("remove some with `slipway envs rm NAME:TAG`")
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
func (l *Library) fewEnough(owner string) error {
	files, err := os.ReadDir(l.dir.Path("records", libdir.Escape(owner)))
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
func (r record) named() bool {
	return slices.ContainsFunc(r.Labels, func(b label) bool { return b.Name != "" })
}

func (r record) environment(b label) Environment {
	return Environment{
		Digest: r.Digest, Owner: r.Owner, Name: b.Name, Tag: b.Tag, Note: b.Note, Created: r.made(), Named: b.Created, FromSession: b.Key,
		Size: r.Size, Own: r.Own, Base: r.Base, Manifest: r.Manifest, Share: r.Share, Used: r.Used, Use: r.Use,
	}
}

// environments returns a record's environment under each of its names, as it was given last. Without a name it is there
// only when it has none.
func (r record) environments() (out []Environment) {
	for i, b := range r.Labels {
		again := slices.ContainsFunc(r.Labels[i+1:], func(o label) bool { return o.Name == b.Name && o.Tag == b.Tag })
		if !again && (b.Name != "" || !r.named()) {
			out = append(out, r.environment(b))
		}
	}
	return out
}

// made is when the owner first had the environment, as far as that is known.
func (r record) made() time.Time {
	at := r.Made
	for _, b := range r.Labels {
		if at.IsZero() || b.Created.Before(at) {
			at = b.Created
		}
	}
	return at
}

// decodeRecord reads a record and makes sure that it is the one that its place says.
func decodeRecord(data []byte, owner, hexPart string) (record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, err
	}
	if r.Owner != owner || r.Digest != blob.Prefix+hexPart || len(r.Labels) == 0 {
		return record{}, errs.New(errs.Internal, "the record is of %.80q of %.80q", r.Digest, r.Owner)
	}
	return r, nil
}

// decodeAnyRecord reads a record whose owner is known by the name of his directory.
func decodeAnyRecord(data []byte, dir, hexPart string) (record, error) {
	var whose struct {
		Owner string `json:"owner"`
	}
	if err := json.Unmarshal(data, &whose); err != nil {
		return record{}, err
	}
	if libdir.Escape(whose.Owner) != dir {
		return record{}, errs.New(errs.Internal, "the record is of %.80q", whose.Owner)
	}
	return decodeRecord(data, whose.Owner, hexPart)
}

func (l *Library) loadRecord(owner, hexPart string) (record, error) {
	path := l.dir.Path("records", libdir.Escape(owner), hexPart+".json")
	return l.index.read(path, func(data []byte) (record, error) {
		r, err := decodeRecord(data, owner, hexPart)
		if err != nil {
			err = fmt.Errorf("read %s: %w", path, err)
		}
		return r, err
	})
}

// enter makes sure that the owner's references lead to what was frozen, and gives it as this request named it. Nothing
// is written when they do already.
func (l *Library) enter(req Request, f frozen) (Environment, error) {
	l.records.Lock()
	defer l.records.Unlock()
	if l.abandoned[f.Digest] {
		return Environment{}, errs.New(errs.Conflict, "another freeze that made the same environment failed and took it away").With("freeze again")
	}
	hexPart, _ := blob.Hex(f.Digest)
	r, err := l.loadRecord(req.Owner, hexPart)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			l.log.Error("an environment's record is written anew", "digest", f.Digest, "error", err)
		}
		if _, err := l.room(req.Owner, req.Instead, f.Digest, f.Own); err != nil { // others of his may have been entered since it was looked at
			return Environment{}, err
		}
		if err := l.fewEnough(req.Owner); err != nil {
			return Environment{}, err
		}
		r = record{
			Owner: req.Owner, Digest: f.Digest, Size: f.Size, Own: f.Own, Base: f.Base, Manifest: f.Manifest, Share: Share{Private, ""},
			Made: l.cfg.Now().UTC(),
		}
	}
	use, more := r.Use.and(req.Use)
	r.Use = use
	e, known := l.labelled(r, req)
	if !known {
		r.Used = l.cfg.Now().UTC()
		b := label{Name: req.Name, Tag: req.Tag, Note: req.Note, Created: r.Used, Key: req.Key}
		if err := r.add(b); err != nil {
			return Environment{}, err
		}
		e = r.environment(b)
		e.Paused = f.Paused
	}
	e.Unchanged = f.unchanged
	if known && !more {
		return e, nil
	}
	if err := libdir.WriteJSON(l.dir.Path("records", libdir.Escape(req.Owner)), hexPart+".json", r); err != nil {
		return Environment{}, err
	}
	if _, err := l.facts(f.Digest); err == nil { // else they are tried when it is settled
		l.tryLater(f.Digest)
	}
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
		own := r.environment(b)
		e, err := l.Get(req.Owner, strings.TrimSuffix(req.Name+":"+req.Tag, ":")+"@"+own.Architecture())
		return own, err == nil && e.Digest == r.Digest
	}
	return Environment{}, false
}

// lastFreeze is what a source's last freeze found.
type lastFreeze struct {
	Owner    string `json:"owner"`
	Key      string `json:"key"`
	Identity string `json:"identity"`
	Frozen   frozen `json:"frozen"`
}

func (l *Library) saveLast(req Request, id string, f frozen) error {
	return libdir.WriteJSON(l.dir.Path("sources", libdir.Escape(req.Owner)), libdir.Escape(req.Key)+".json", lastFreeze{Owner: req.Owner, Key: req.Key, Identity: id, Frozen: f})
}

// last returns what the source's last freeze made, when that is still what a freeze would make and its files are still
// there.
func (l *Library) last(req Request, id string) (frozen, bool) {
	var last lastFreeze
	if err := libdir.ReadJSON(l.dir.Path("sources", libdir.Escape(req.Owner), libdir.Escape(req.Key)+".json"), &last); err != nil {
		return frozen{}, false
	}
	f := last.Frozen
	l.keepFor(f.Digest, grace)
	if last.Owner != req.Owner || last.Key != req.Key || last.Identity != id || !l.complete(f.Digest, f.Size) || !allows(req.Allow, f.Allowed) {
		return frozen{}, false
	}
	f.unchanged, f.Paused = true, 0
	return f, true
}

// complete says whether an environment's files are there, and none is known to be damaged; the image may have grown by
// signatures since it had size bytes.
func (l *Library) complete(digest string, size int64) bool {
	if _, err := l.document(digest); err != nil || l.isSpoilt(digest) {
		return false
	}
	st, err := os.Stat(l.dir.Image(digest))
	return err == nil && st.Size() >= size
}
