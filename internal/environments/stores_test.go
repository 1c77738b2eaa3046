package environments

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"slipway/images/blobstore"
	"slipway/images/publish"
	"slipway/images/records"
	"slipway/images/registry/registrytest"
	"slipway/internal/config"
	"slipway/internal/errs"
	"slipway/internal/testenv"
)

// newPlaces is a site whose library has two stores and an export.
func newPlaces(t *testing.T) (*blobStoreOf, *Service) {
	t.Helper()
	d := newBlobStore(t)
	d.must(d.library.Close())
	site := config.Config{DataDir: filepath.Join(d.dir, "data")}
	for _, name := range []string{"data", "vault", "second", "export"} {
		d.must(os.Mkdir(filepath.Join(d.dir, name), 0o755))
	}
	site.Environments.Stores = []config.EnvironmentStore{
		{Name: "vault", Directory: filepath.Join(d.dir, "vault")}, {Name: "second", Directory: filepath.Join(d.dir, "second")},
	}
	site.Environments.Exports = []config.EnvironmentExport{
		{Name: "cvmfs", Directory: filepath.Join(d.dir, "export"), Forms: []string{config.FormSIF, config.FormUnpacked}, Shared: config.SharedPublic},
	}
	s, err := Open(t.Context(), Config{
		Site: site, Keys: d.keys, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), QuotasOf: func(string) []records.Quota { return nil },
	})
	d.must(err)
	d.library = s.library
	return d, s
}

// until runs the places until something holds.
func (d *blobStoreOf) until(what string, s *Service, holds func() bool) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	var g errgroup.Group
	s.places.run(ctx, g.Go)
	testenv.Within(testenv.Hang, holds)
	cancel()
	d.must(g.Wait())
	if !holds() {
		d.t.Fatalf("never: %s; %+v, %+v", what, s.places.stores(), s.places.exports())
	}
}

// TestEnvironmentsGoToOtherPlacesAndComeBack: copies are written and are what a damaged image is made of; what is
// shared with everybody is published, runs with Apptainer from there, and goes when it is not shared any more.
func TestEnvironmentsGoToOtherPlacesAndComeBack(t *testing.T) {
	d, s := newPlaces(t)
	e := d.freeze("alice", "ana", "v1", "from elsewhere")
	own := d.freeze("alice", "own", "v1", "nobody's business")
	d.settle(e)
	d.settle(own)
	d.share("alice", "ana:v1")
	d.until("two copies", s, func() bool {
		return s.places.stores()[0].Stored == 2 && s.places.stores()[1].Stored == 2 && len(s.places.publishedAs(e.Digest)) == 2
	})
	if got := s.places.copiesOf(e.Digest); len(got) != 2 || got[0].Store != "vault" || got[0].Stored == nil || got[1].Stored == nil {
		t.Errorf("%+v", got)
	}
	if got := strings.Join(s.places.publishedAs(e.Digest), " "); got != "cvmfs: alice/ana:v1 cvmfs: alice/ana:latest" {
		t.Errorf("%q", got)
	}
	root := s.cfg.Site.Environments.Exports[0].Directory
	if found, _ := filepath.Glob(filepath.Join(root, "alice", "own*")); len(found) > 0 || len(s.places.publishedAs(own.Digest)) > 0 {
		t.Errorf("what is private was published: %q", found)
	}
	t.Run("with Apptainer", func(t *testing.T) { runsFrom(t, root) })

	d.spoil(e, s)
	if _, err := d.library.Ready(t.Context(), e.Digest); err != nil {
		t.Error(err)
	}
	if _, err := d.library.Verify(t.Context(), e.Digest); err != nil {
		t.Error(err)
	}
	_, err := d.library.Records.SetShare(records.Viewer{Owner: "alice"}, "ana:v1", records.Share{With: records.Private})
	d.must(err)
	d.until("withdrawn", s, func() bool { return s.places.exports()[0].Published == 0 })
	if left, _ := filepath.Glob(filepath.Join(root, "*")); len(left) > 0 {
		t.Errorf("left of the export: %q", left)
	}
	if left, _ := filepath.Glob(filepath.Join(root, ".flat", "*", "*")); len(left) > 0 {
		t.Errorf("left of its trees: %q", left)
	}
}

// runsFrom runs an export's renderings with Apptainer.
func runsFrom(t *testing.T, root string) {
	testenv.Need(t, testenv.Root, testenv.Apptainer)
	for _, path := range []string{"alice/ana/v1.sif", "alice/ana/latest.sif", "alice/ana:v1"} {
		if out := registrytest.Apptainer(t, t.TempDir(), nil, "exec", filepath.Join(root, path), "cat", "/greeting"); out != "from elsewhere" {
			t.Errorf("%s says %q", path, out)
		}
	}
}

// spoil damages the image here and its tail in the first store.
func (d *blobStoreOf) spoil(e records.Environment, s *Service) {
	d.t.Helper()
	tail := filepath.Join(d.dir, "vault", digitsOf(d.document(e.Digest).Tail.Digest))
	image := filepath.Join(s.path("environments", "blobs"), digitsOf(e.Digest)+".sif")
	for path, at := range map[string]int64{tail: 10, image: 40000} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		d.must(err)
		_, err = f.WriteAt([]byte("evil"), at)
		d.must(err, f.Close())
	}
}

// TestWhatIsPublished: by share and tag, the newest of each; nothing that is not signed, and nothing without a name.
func TestWhatIsPublished(t *testing.T) {
	d := newBlobStore(t)
	old, now := d.freeze("alice", "ana", "v1", "old"), d.freeze("alice", "ana", "v1", "new")
	secret, second := d.freeze("alice", "ana", "v2", "private"), d.freeze("Bob B.", "tools", "release-1", "bob's")
	open, moved := d.freeze("alice", "gone", "v1", "open"), d.freeze("alice", "gone", "v1", "moved")
	unnamed, unsigned := d.freeze("alice", "", "", "unnamed"), d.freeze("alice", "ana", "v3", "unsigned")
	for _, e := range []records.Environment{old, now, secret, second, unnamed, open, moved} {
		d.settle(e)
	}
	for _, e := range []records.Environment{old, now, unnamed, unsigned, open} {
		d.share("alice", e.Digest)
	}
	d.share("Bob B.", second.Digest)
	const bob = "x--426f6220422e"
	for _, tc := range []struct {
		cfg  config.EnvironmentExport
		want []publish.Entry
	}{
		{config.EnvironmentExport{Shared: config.SharedPublic}, []publish.Entry{
			{Owner: "alice", Name: "ana", Tag: "latest", Digest: now.Digest}, {Owner: "alice", Name: "ana", Tag: "v1", Digest: now.Digest},
			{Owner: bob, Name: "tools", Tag: "latest", Digest: second.Digest}, {Owner: bob, Name: "tools", Tag: "release-1", Digest: second.Digest},
		}},
		{config.EnvironmentExport{Shared: config.SharedPublic, Tags: []string{"release-*", "v2"}}, []publish.Entry{
			{Owner: bob, Name: "tools", Tag: "latest", Digest: second.Digest}, {Owner: bob, Name: "tools", Tag: "release-1", Digest: second.Digest},
		}},
		{config.EnvironmentExport{Shared: config.SharedAny, Tags: []string{"v2"}}, []publish.Entry{
			{Owner: "alice", Name: "ana", Tag: "latest", Digest: secret.Digest}, {Owner: "alice", Name: "ana", Tag: "v2", Digest: secret.Digest},
		}},
	} {
		got, err := published(d.library, tc.cfg)
		d.must(err)
		if want := tc.want; len(got) != len(want) || !contains(got, want) {
			t.Errorf("%+v: %+v, want %+v", tc.cfg, got, want)
		}
	}
}

func contains(all, some []publish.Entry) bool {
	seen := map[publish.Entry]bool{}
	for _, e := range all {
		seen[e] = true
	}
	for _, e := range some {
		if !seen[e] {
			return false
		}
	}
	return true
}

func TestWaitWords(t *testing.T) {
	seen := map[string]bool{}
	for _, err := range []error{nil, errs.New(errs.NoSpace, "x"), errs.New(errs.Forbidden, "x"), errs.New(errs.Conflict, "x"), errors.New("x"), blobStoreDown()} {
		seen[waitWords(err)] = true
	}
	if len(seen) != 5 {
		t.Errorf("%v", seen)
	}
}

// blobStoreDown is what a store says whose directory is not there.
func blobStoreDown() error {
	_, err := blobstore.OpenExport("/nowhere/at/all")
	return err
}
