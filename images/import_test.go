package images

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/progress"
	"slipway/images/records"
	"slipway/images/sif"
	"slipway/images/signing"
	"slipway/internal/errs"
)

// place is a library with keys of its own.
type place struct {
	*Library
	keys *signing.Keys
}

func newPlace(t *testing.T, site string, change ...func(*Config)) place {
	t.Helper()
	keys, err := signing.New(signing.Config{Dir: filepath.Join(t.TempDir(), "keys"), Site: site, Now: time.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	must(t, err)
	cfg := Config{Dir: filepath.Join(t.TempDir(), "library"), Keys: keys}
	for _, fn := range change {
		fn(&cfg)
	}
	return place{openLibrary(t, cfg), keys}
}

// freeze freezes a fixture whose base has a digest that can be signed.
func (p place) freeze(t *testing.T, f *fixture, change func(*Request)) records.Environment {
	t.Helper()
	return freeze(t, p.Library, f, func(r *Request) {
		r.Source.Base.Digest = blob.Digest([]byte(f.dir))
		if change != nil {
			change(r)
		}
	})
}

// trusts makes one place believe another.
func (p place) trusts(t *testing.T, other place, name string) {
	t.Helper()
	list, err := other.keys.List()
	must(t, err)
	_, err = p.keys.Trust(name, list[0].PEM())
	must(t, err)
}

// sent is an environment on its way: all that it consists of, in memory, to be tampered with.
type sent struct {
	Adoption
	blobs map[string][]byte
	asked []string
}

func (p place) send(t *testing.T, digest string) *sent {
	t.Helper()
	parts, err := p.Library.Parts(digest)
	must(t, err)
	statements, err := parts.Statements()
	must(t, err)
	s := &sent{blobs: map[string][]byte{}}
	d := parts.Document
	wanted := []string{d.Manifest.Digest, d.Tail.Digest}
	if d.Base != nil {
		wanted = append(wanted, d.Base.Digest)
	}
	for _, name := range wanted {
		b, err := parts.Blob(t.Context(), name)
		must(t, err)
		data, err := io.ReadAll(blob.Reader(b))
		must(t, err, b.Close())
		if blob.Digest(data) != name {
			t.Errorf("the part %s has the digest %s", name, blob.Digest(data))
		}
		s.blobs[name] = data
	}
	s.Adoption = Adoption{Owner: "bob", Name: "ana", From: "registry.example/alice/ana:v1", Document: parts.Encoded, Statements: statements}
	s.Open = func(digest string) (blob.Blob, error) {
		s.asked = append(s.asked, digest)
		if data, ok := s.blobs[digest]; ok {
			return blob.Bytes(data), nil
		}
		return nil, errs.New(errs.NotFound, "no %s", digest)
	}
	return s
}

// edit changes the document, and gives it as it is then.
func (s *sent) edit(t *testing.T, change func(*manifest.Document)) {
	t.Helper()
	d, err := manifest.DecodeDocument(s.Document)
	must(t, err)
	change(&d)
	s.Document, _, err = d.Encode()
	must(t, err)
}

func (s *sent) document(t *testing.T) manifest.Document {
	t.Helper()
	d, err := manifest.DecodeDocument(s.Document)
	must(t, err)
	return d
}

// replace puts other bytes for the tail, and makes the document name them.
func (s *sent) replaceTail(t *testing.T, change func([]byte)) {
	t.Helper()
	data := bytes.Clone(s.blobs[s.document(t).Tail.Digest])
	change(data)
	s.edit(t, func(d *manifest.Document) { d.Tail.Digest = blob.Digest(data) })
	s.blobs[blob.Digest(data)] = data
}

func TestAdopt(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	there, here := newPlace(t, "there"), newPlace(t, "here")
	here.trusts(t, there, "partner")
	e := there.freeze(t, f, func(r *Request) { r.Name, r.Tag = "ana", "v1" })
	s := there.send(t, e.Digest)
	var stages []progress.Stage
	s.Progress = func(p progress.Progress) { stages = append(stages, p.Stage) }
	got, err := here.Adopt(t.Context(), s.Adoption)
	must(t, err)
	if got.Digest != e.Digest || got.Own != e.Own || got.Base != e.Base || got.Owner != "bob" || got.Name != "ana" || got.FromSession != "pulled from "+s.From {
		t.Errorf("adopted %+v", got)
	}
	if stages[len(stages)-1] != progress.Done || !slices.Contains(stages, progress.Checking) {
		t.Errorf("stages %v", stages)
	}
	if want, err := os.ReadFile(there.dir.Image(e.Digest)); err != nil || !sameFile(t, here.dir.Image(e.Digest), want) {
		t.Errorf("the images differ, %v", err)
	}
	stated, err := here.Library.Statements.List(e.Digest)
	if must(t, err); len(stated) != 1 || stated[0].Key.Site != "partner" {
		t.Errorf("statements %+v", stated)
	}
	if from, err := here.Thaw(t.Context(), e.Digest); err != nil || from.Image != e.Base.Digest {
		t.Errorf("thaw: %+v, %v", from, err)
	}
	noLeftovers(t, here.Library)

	s.asked, s.Owner = nil, "carol"
	if _, err := here.Adopt(t.Context(), s.Adoption); err != nil || slices.Contains(s.asked, s.document(t).Base.Digest) {
		t.Errorf("the base is here, and was asked for: %q, %v", s.asked, err)
	}
	delete(s.blobs, s.document(t).Tail.Digest)
	s.Owner = "eve"
	if _, err := here.Adopt(t.Context(), s.Adoption); !errs.Is(err, errs.NotFound) {
		t.Errorf("who named the environment and had nothing of it got %v", err)
	}
}

func sameFile(t *testing.T, path string, want []byte) bool {
	t.Helper()
	got, err := os.ReadFile(path)
	must(t, err)
	return bytes.Equal(got, want)
}

func TestAdoptWithoutABase(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.options = "redirect_dir=on,"
	f.change(func(root string) error {
		return os.Rename(filepath.Join(root, "var/lib"), filepath.Join(root, "var/moved")) // strip rules match in it
	})
	there, here := newPlace(t, "there"), newPlace(t, "here")
	e := there.freeze(t, f, nil)
	if d, err := there.document(e.Digest); err != nil || d.Base != nil {
		t.Fatalf("the fixture was grafted: %+v, %v", d, err)
	}
	s := there.send(t, e.Digest)
	s.Unsigned = true
	_, err := here.Adopt(t.Context(), s.Adoption)
	must(t, err)
	if _, err := here.Thaw(t.Context(), e.Digest); !errs.Is(err, errs.Conflict) {
		t.Errorf("thaw: %v", err)
	}
	if path, err := here.Ready(t.Context(), e.Digest); err != nil || path != here.dir.Image(e.Digest) {
		t.Errorf("%s, %v", path, err)
	}
}

// TestTheSiteSignsNoStrangersWord: Apptainer's users take its signature for its word. It is there once the site has
// frozen the same.
func TestTheSiteSignsNoStrangersWord(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	there, here := newPlace(t, "there"), newPlace(t, "here")
	e := there.freeze(t, f, nil)
	s := there.send(t, e.Digest)
	s.Unsigned = true
	_, err := here.Adopt(t.Context(), s.Adoption)
	must(t, err, here.settle(t.Context(), e.Digest))
	if v, err := here.Verify(t.Context(), e.Digest); err != nil || len(v.Signers)+len(v.Stated) > 0 {
		t.Errorf("brought: %+v, %v", v, err)
	}
	if again := here.freeze(t, f, nil); again.Digest != e.Digest {
		t.Fatalf("frozen here it is %s", again.Digest)
	}
	must(t, here.settle(t.Context(), e.Digest))
	if v, err := here.Verify(t.Context(), e.Digest); err != nil || len(v.Signers) != 1 {
		t.Errorf("frozen here: %+v, %v", v, err)
	}
}

// TestNoSessionStartsFromAnImageByAStrangersWord: its manifest could name any image of the engine.
func TestNoSessionStartsFromAnImageByAStrangersWord(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	there, here := newPlace(t, "there"), newPlace(t, "here")
	e := there.freeze(t, f, nil)
	s := there.send(t, e.Digest)
	s.Unsigned = true
	_, err := here.Adopt(t.Context(), s.Adoption)
	must(t, err)
	if _, err := here.Thaw(t.Context(), e.Digest); !errs.Is(err, errs.Forbidden) {
		t.Errorf("thaw: %v", err)
	}
	src := f.source()
	src.Base = manifest.Base{Reference: "another:image", Digest: e.Base.Digest}
	must(t, here.Prepare(t.Context(), src, nil))
	if _, err := here.Thaw(t.Context(), e.Digest); !errs.Is(err, errs.Forbidden) {
		t.Errorf("by the name of an image that it does not stand on: %v", err)
	}
	path := only(t, here.Library, "bases/*.json")
	var b baseRecord
	must(t, libdir.ReadJSON(path, &b))
	b.Of.Reference = e.Base.Reference
	must(t, libdir.WriteJSON(filepath.Dir(path), filepath.Base(path), b))
	if _, err := here.Thaw(t.Context(), e.Digest); err != nil {
		t.Errorf("thaw when the image was converted here: %v", err)
	}
}

// TestLiesAreRefused: nothing of an environment that is not what its document says stays here, signed or not.
func TestLiesAreRefused(t *testing.T) {
	f, other := newFixture(t, nastyBase), newFixture(t, func(root string) error { return write(filepath.Join(root, "another"), strings.Repeat("base", 1<<20)) })
	f.change(nastyChanges)
	there, here := newPlace(t, "there"), newPlace(t, "here")
	digest := there.freeze(t, f, nil).Digest
	other.change(func(root string) error { return write(filepath.Join(root, "mine"), "x") })
	foreign := there.freeze(t, other, func(r *Request) { r.Key = "s2" }).Digest
	for name, tc := range map[string]struct {
		lie  func(t *testing.T, s *sent)
		kind errs.Kind
	}{
		"nobody vouches":     {func(_ *testing.T, s *sent) { s.Unsigned, s.Statements = false, nil }, errs.Forbidden},
		"an unknown key":     {func(_ *testing.T, s *sent) { s.Unsigned = false }, errs.Forbidden},
		"no document":        {func(_ *testing.T, s *sent) { s.Document = []byte("{}") }, errs.Invalid},
		"a document and one": {func(_ *testing.T, s *sent) { s.Document = append(bytes.Clone(s.Document), ' ') }, errs.Invalid},
		"another cut":        {func(t *testing.T, s *sent) { s.edit(t, func(d *manifest.Document) { d.Base.Cut -= 4096 }) }, errs.Invalid},
		"another kept part":  {func(t *testing.T, s *sent) { s.edit(t, func(d *manifest.Document) { d.Base.Kept = blob.Digest(nil) }) }, errs.Invalid},
		"another base": {func(t *testing.T, s *sent) {
			o := there.send(t, foreign)
			s.edit(t, func(d *manifest.Document) { d.Base = o.document(t).Base })
			s.blobs[o.document(t).Base.Digest] = o.blobs[o.document(t).Base.Digest]
		}, errs.Invalid},
		"a changed base": {func(t *testing.T, s *sent) { s.blobs[s.document(t).Base.Digest][100] ^= 1 }, errs.Invalid},
		"a short base":   {func(t *testing.T, s *sent) { b := s.document(t).Base.Digest; s.blobs[b] = s.blobs[b][:100] }, errs.Invalid},
		"a changed tail": {func(t *testing.T, s *sent) { s.blobs[s.document(t).Tail.Digest][5] ^= 1 }, errs.Conflict},
		"a short tail":   {func(t *testing.T, s *sent) { b := s.document(t).Tail.Digest; s.blobs[b] = s.blobs[b][96:] }, errs.Invalid},
		"a tail of nonsense": {func(t *testing.T, s *sent) {
			s.replaceTail(t, func(b []byte) { clear(b[:len(b)-manifest.SuperblockSize]) })
		}, errs.Invalid},
		"no superblock": {func(t *testing.T, s *sent) {
			s.replaceTail(t, func(b []byte) { clear(b[len(b)-manifest.SuperblockSize:]) })
		}, errs.Invalid},
		"a changed manifest": {func(t *testing.T, s *sent) { s.blobs[s.document(t).Manifest.Digest][3] ^= 1 }, errs.Invalid},
		"a tail too large for any disk": {func(t *testing.T, s *sent) {
			s.edit(t, func(d *manifest.Document) { d.Tail.Size += 1 << 60 })
		}, errs.NoSpace},
		"a name that leads out": {func(_ *testing.T, s *sent) { s.Name = "../alice" }, errs.Invalid},
		"nobody's":              {func(_ *testing.T, s *sent) { s.Owner = "" }, errs.Invalid},
		"an unknown architecture": {func(t *testing.T, s *sent) {
			about := replaced(t, s.blobs[s.document(t).Manifest.Digest], "architecture", "pdp11")
			s.edit(t, func(d *manifest.Document) {
				d.Manifest = manifest.Part{Digest: blob.Digest(about), Size: int64(len(about))}
			})
			s.blobs[blob.Digest(about)] = about
		}, errs.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := there.send(t, digest)
			s.Unsigned = true
			tc.lie(t, s)
			_, err := here.Adopt(t.Context(), s.Adoption)
			if !errs.Is(err, tc.kind) {
				t.Errorf("err = %v of kind %v", err, errs.KindOf(err))
			}
			holdsNothing(t, here.Library)
		})
	}
}

func replaced(t *testing.T, data []byte, field, value string) []byte {
	t.Helper()
	var m map[string]any
	must(t, json.Unmarshal(data, &m))
	m[field] = value
	out, err := json.Marshal(m)
	must(t, err)
	return out
}

func holdsNothing(t *testing.T, l *Library) {
	t.Helper()
	for _, dir := range []string{"work", "bases", "blobs", "documents", "records", "statements"} {
		left, err := filepath.Glob(l.dir.Path(dir, "*"))
		if must(t, err); len(left) > 0 {
			t.Errorf("left in %s: %q", dir, left)
		}
	}
}

// TestAdoptOnAFullDisk: what finds no room is refused before it is fetched, and leaves nothing when the room is taken
// meanwhile.
func TestAdoptOnAFullDisk(t *testing.T) {
	f := newFixture(t, nastyBase)
	noise := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	f.change(func(root string) error { return write(filepath.Join(root, "noise"), string(noise)) })
	there := newPlace(t, "there")
	digest := there.freeze(t, f, nil).Digest
	for name, early := range map[string]bool{"before": true, "meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			s := there.send(t, digest)
			s.Unsigned = true
			disk := smallDisk(t, 64)
			here := openLibrary(t, Config{Dir: filepath.Join(disk, "library")})
			if early {
				fill(t, disk, 4<<20)
			}
			s.Progress = func(p progress.Progress) {
				if p.Stage == progress.Checking && !early {
					early = true
					fill(t, disk, 4<<20)
				}
			}
			_, err := here.Adopt(t.Context(), s.Adoption)
			if !errs.Is(err, errs.NoSpace) || name == "before" != (len(s.asked) == 0) {
				t.Errorf("asked for %q, err = %v", s.asked, err)
			}
			holdsNothing(t, here)
		})
	}
}

func TestSIFIsTheresOnceSettled(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	there := newPlace(t, "there")
	e := there.freeze(t, f, nil)
	p, err := there.Parts(e.Digest)
	must(t, err)
	if _, err := p.OpenSIF(); !errs.Is(err, errs.Unavailable) {
		t.Errorf("before it was settled: %v", err)
	}
	_, err = there.About(t.Context(), e.Digest)
	must(t, err)
	b, err := p.OpenSIF()
	must(t, err)
	defer b.Close()
	data, err := io.ReadAll(blob.Reader(b))
	must(t, err)
	if named, err := p.SIF(); err != nil || named != (manifest.Part{Digest: blob.Digest(data), Size: int64(len(data))}) {
		t.Errorf("the SIF %v has the digest %s, %v", named, blob.Digest(data), err)
	}
	if arch, err := p.Architecture(); err != nil || arch == "" {
		t.Errorf("architecture %q, %v", arch, err)
	}
	if image, err := sif.Open(bytes.NewReader(data), int64(len(data))); err != nil || len(image.Signatures) != 1 {
		t.Errorf("%+v, %v", image, err)
	}
	for _, name := range []string{"", "sha256:../../keys", blob.Digest(nil), e.Digest} {
		if _, err := p.Blob(t.Context(), name); !errs.Is(err, errs.NotFound) {
			t.Errorf("the part %q: %v", name, err)
		}
	}
	if _, err := there.Parts(blob.Digest(nil)); !errs.Is(err, errs.NotFound) || errors.Is(err, os.ErrNotExist) {
		t.Errorf("no environment: %v", err)
	}
}
