package images

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/images/blob"
	"slipway/images/libdir"
	"slipway/images/manifest"
	"slipway/images/sif"
	"slipway/internal/errs"
)

// elsewhere is another store in memory.
type elsewhere struct {
	content map[string][]byte
	asked   []string
	err     error
}

// keep copies an environment there, as package copies does.
func (s *elsewhere) keep(t *testing.T, l *Library, digest string) {
	t.Helper()
	p, err := l.Parts(digest)
	must(t, err)
	s.content = map[string][]byte{digest: p.Encoded}
	for _, part := range []manifest.Part{p.Document.Manifest, p.Document.Tail, p.Document.Base.Part} {
		b, err := p.Blob(t.Context(), part.Digest)
		must(t, err)
		data, err := io.ReadAll(blob.Reader(b))
		must(t, err, b.Close())
		s.content[part.Digest] = data
	}
}

func (s *elsewhere) fetch(_ context.Context, digest string, limit int64, path string) error {
	s.asked = append(s.asked, digest)
	data, ok := s.content[digest]
	if s.err != nil {
		return s.err
	}
	if !ok || int64(len(data)) > limit {
		return errs.New(errs.NotFound, "no store gives %s of %d bytes at most", digest, limit)
	}
	return os.WriteFile(path, data, 0o600)
}

// TestWhatIsLostComesBackFromAnotherStore spoils each file of an environment: the next run gets the right bytes all the
// same.
func TestWhatIsLostComesBackFromAnotherStore(t *testing.T) {
	remove := func(t *testing.T, path string) { must(t, os.Remove(path)) }
	for name, tc := range map[string]struct {
		patterns []string
		spoil    func(t *testing.T, path string)
	}{
		"contents":   {[]string{"blobs/*.sif"}, func(t *testing.T, path string) { flipBit(t, path, sif.PartitionOffset+300) }},
		"head":       {[]string{"blobs/*.sif"}, func(t *testing.T, path string) { flipBit(t, path, 100) }},
		"shorter":    {[]string{"blobs/*.sif"}, func(t *testing.T, path string) { must(t, os.Truncate(path, 40000)) }},
		"no image":   {[]string{"blobs/*.sif"}, remove},
		"document":   {[]string{"documents/*.json"}, func(t *testing.T, path string) { flipBit(t, path, 20) }},
		"nothing":    {[]string{"blobs/*.sif", "documents/*.json", "facts/*.json"}, remove},
		"with base":  {[]string{"blobs/*.sif", "bases/*.sqfs"}, remove},
		"base too":   {[]string{"blobs/*.sif", "bases/*.sqfs"}, func(t *testing.T, path string) { flipBit(t, path, 200) }},
		"base grown": {[]string{"blobs/*.sif", "bases/*.sqfs"}, appended},
		"only base":  {[]string{"bases/*.sqfs"}, remove},
		"sound":      {nil, remove},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nastyBase, func(root string) error {
				return write(filepath.Join(root, "usr/much"), strings.Repeat("the base's own words\n", 9000))
			})
			f.change(nastyChanges)
			var store elsewhere
			cfg := Config{Dir: filepath.Join(t.TempDir(), "l"), Keys: keysIn(t, filepath.Join(t.TempDir(), "keys")), Fetch: store.fetch}
			l := openLibrary(t, cfg)
			e := freeze(t, l, f, nil)
			_, err := l.About(t.Context(), e.Digest)
			must(t, err)
			store.keep(t, l, e.Digest)
			must(t, l.Close())
			for _, pattern := range tc.patterns {
				tc.spoil(t, only(t, l, pattern))
			}
			l = openLibrary(t, cfg)
			path, err := l.Ready(t.Context(), e.Digest)
			must(t, err)
			if path != l.dir.Image(e.Digest) || tc.patterns == nil != (len(store.asked) == 0) && name != "only base" {
				t.Errorf("%s, after asking for %q", path, store.asked)
			}
			noLeftovers(t, l)
			about, err := l.About(t.Context(), e.Digest)
			must(t, err)
			proven, err := l.Verify(t.Context(), e.Digest)
			if err != nil || len(proven.Signers) != 1 || proven.SIF != about.SIF {
				t.Errorf("%+v, %+v, %v", proven.SIF, about.SIF, err)
			}
			equalTrees(t, l, f, e)
			thawed, err := l.Thaw(t.Context(), e.Digest)
			must(t, err)
			must(t, thawed.Fill(t.Context(), t.TempDir()))
			noLeftovers(t, l)
		})
	}
}

// TestACopyThatCannotBeHadLosesNothing: what is left of a damaged image stays, and the error says whether to come
// again.
func TestACopyThatCannotBeHadLosesNothing(t *testing.T) {
	f := newFixture(t, nastyBase)
	f.change(nastyChanges)
	var store elsewhere
	l := openLibrary(t, Config{Dir: filepath.Join(t.TempDir(), "l"), Fetch: store.fetch})
	e := freeze(t, l, f, nil)
	store.keep(t, l, e.Digest)
	flipBit(t, l.dir.Image(e.Digest), sif.PartitionOffset+300)
	store.err = errs.New(errs.Unavailable, "all stores are down")
	if _, err := l.Ready(t.Context(), e.Digest); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), "damaged on disk") {
		t.Errorf("down: %v", err)
	}
	store.err = nil
	tail := l.must(t, e.Digest).Tail.Digest
	whole := store.content[tail]
	for _, bad := range [][]byte{nil, whole[:len(whole)-1], append([]byte("x"), whole[1:]...)} {
		store.content[tail] = bad // which package copies would not have given
		if _, err := l.Ready(t.Context(), e.Digest); err == nil {
			t.Error("a wrong tail was taken")
		}
		noLeftovers(t, l)
	}
	delete(store.content, tail)
	if _, err := l.Ready(t.Context(), e.Digest); !errs.Is(err, errs.Conflict) {
		t.Errorf("no store has it: %v", err)
	}
	if _, err := os.Stat(l.dir.Image(e.Digest)); err != nil {
		t.Errorf("what was left has gone: %v", err)
	}
	store.content[tail] = whole
	if _, err := l.Ready(t.Context(), e.Digest); err != nil {
		t.Error(err)
	}
	if _, err := l.Ready(t.Context(), blob.Digest(nil)); !errs.Is(err, errs.NotFound) {
		t.Errorf("nobody's: %v", err)
	}
}

func (l *Library) must(t *testing.T, digest string) manifest.Document {
	t.Helper()
	d, err := l.document(digest)
	must(t, err)
	return d
}

func TestListsForOtherPlaces(t *testing.T) {
	f := newFixture(t, nastyBase)
	l := newLibrary(t)
	e := freeze(t, l, f, nil)
	if list, err := l.Settled(); err != nil || len(list) != 0 {
		t.Errorf("settled %q, %v", list, err)
	}
	_, err := l.About(t.Context(), e.Digest)
	must(t, err)
	if list, err := l.Settled(); err != nil || !slices.Equal(list, []string{e.Digest}) {
		t.Errorf("settled %q, %v", list, err)
	}
	freeze(t, l, f, func(r *Request) { r.Owner, r.Name, r.Tag = "bob", "ana", "v1" })
	must(t, os.Remove(l.dir.Path("documents", libdir.HexOrNone(e.Digest)+".json")))
	if list, err := l.Known(); err != nil || !slices.Equal(list, []string{e.Digest}) {
		t.Errorf("known %q, %v", list, err)
	}
	all, err := l.Records.Everyones()
	if err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	must(t, os.RemoveAll(l.dir.Path("facts")), os.RemoveAll(l.dir.Path("records")))
	if _, err := l.Settled(); err == nil {
		t.Error("a directory that went is an empty one")
	}
	if _, err := l.Known(); err == nil {
		t.Error("records that went are none")
	}
}
