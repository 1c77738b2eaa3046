package environments

import (
	"bytes"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/manifest"
	"slipway/images/records"
	"slipway/images/registry/registrytest"
	"slipway/internal/errs"
)

// door is a way by which an environment leaves the library. It gives what came out.
type door func(d *blobStoreOf, e records.Environment) ([]byte, error)

// asked is a door of the service's own registry.
func asked(path func(e records.Environment, d manifest.Document) string) door {
	return func(d *blobStoreOf, e records.Environment) ([]byte, error) {
		p, err := d.library.Parts(e.Digest)
		if err != nil {
			return nil, err
		}
		status, body := d.ask("alice-token", path(e, p.Document))
		if status != http.StatusOK {
			return nil, errs.New(errs.Conflict, "%d: %s", status, body)
		}
		return body, nil
	}
}

// doors are all of them.
func doors() map[string]door {
	content := func(part func(manifest.Document) string) door {
		return asked(func(_ records.Environment, d manifest.Document) string { return "/v2/alice/ana/blobs/" + part(d) })
	}
	return map[string]door{
		"job":           (*blobStoreOf).runs,
		"session":       (*blobStoreOf).startsFrom,
		"push":          (*blobStoreOf).pushes,
		"SIF":           (*blobStoreOf).exportsSIF,
		"OCI":           (*blobStoreOf).exportsOCI,
		"registry: SIF": asked(func(e records.Environment, _ manifest.Document) string { return "/sif/" + e.Digest }),
		"registry: document": asked(func(e records.Environment, _ manifest.Document) string {
			return "/v2/environment/manifests/" + e.Digest
		}),
		"registry: manifest": content(func(d manifest.Document) string { return d.Manifest.Digest }),
		"registry: tail":     content(func(d manifest.Document) string { return d.Tail.Digest }),
		"registry: base":     content(func(d manifest.Document) string { return d.Base.Digest }),
		"provenance": func(d *blobStoreOf, e records.Environment) ([]byte, error) {
			list, err := d.library.Statements.List(e.Digest)
			if err == nil && len(list) == 0 {
				err = errs.New(errs.Conflict, "no statement is believed")
			}
			return nil, err
		},
	}
}

// runs returns the file that a job runs.
func (d *blobStoreOf) runs(e records.Environment) ([]byte, error) {
	path, err := d.library.Ready(d.t.Context(), e.Digest)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func (d *blobStoreOf) startsFrom(e records.Environment) ([]byte, error) {
	from, err := d.library.Thaw(d.t.Context(), e.Digest)
	if err != nil {
		return nil, err
	}
	upper := d.t.TempDir()
	if err := from.Fill(d.t.Context(), upper); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(upper, "greeting"))
}

func (d *blobStoreOf) pushes(records.Environment) ([]byte, error) {
	host, _ := writable(d.t)
	_, err := d.newShipper().Push(d.t.Context(), userOf("alice"), "ana:v1", hubapi.PushRequest{To: host + "/alice/ana:v1", SIF: true}, quiet)
	return nil, err
}

func (d *blobStoreOf) exportsSIF(records.Environment) ([]byte, error) {
	e, err := d.environments().Export(d.t.Context(), userOf("alice"), "ana:v1", hubapi.ExportSIF)
	if err != nil {
		return nil, err
	}
	defer e.Content.Close()
	return io.ReadAll(e.Content)
}

func (d *blobStoreOf) exportsOCI(records.Environment) ([]byte, error) {
	e, err := d.environments().Export(d.t.Context(), userOf("alice"), "ana:v1", hubapi.ExportOCI)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = e.Write(d.t.Context(), &out)
	return out.Bytes(), err
}

// copied is the same library in another place, with one byte of one of its files changed. Files are looked for there by
// pattern.
func (d *blobStoreOf) copied(t *testing.T, pattern string, at func(size int64) int64) *blobStoreOf {
	t.Helper()
	c := *d
	c.t, c.dir = t, t.TempDir()
	dir := filepath.Join(c.dir, "library")
	c.must(os.CopyFS(dir, os.DirFS(filepath.Join(d.dir, "library"))))
	if pattern != "" {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if c.must(err); len(files) != 1 {
			t.Fatalf("%s matches %q", pattern, files)
		}
		data, err := os.ReadFile(files[0])
		c.must(err)
		data[at(int64(len(data)))] ^= 0x10
		c.must(os.WriteFile(files[0], data, 0o600))
	}
	var err error
	c.library, err = images.Open(images.Config{Dir: dir, Keys: d.keys, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	c.must(err)
	t.Cleanup(func() { c.must(c.library.Close()) })
	registry := *d.registry
	registry.library = c.library
	c.registry = &registry
	return &c
}

// TestDamageLeavesByNoDoor changes one byte of each kind of file. Whatever leaves the library then is what it was
// before, or nothing, and it is said why.
func TestDamageLeavesByNoDoor(t *testing.T) {
	d := newBlobStore(t)
	e := d.freeze("alice", "ana", "v1", strings.Repeat("hello ", 50000))
	d.settle(e)
	doc := d.document(e.Digest)
	whole := map[string][]byte{}
	for name, open := range doors() {
		data, err := open(d.copied(t, "", nil), e)
		if whole[name] = data; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	all := slices.Sorted(maps.Keys(doors()))
	image := []string{"OCI", "SIF", "job", "push", "registry: SIF", "registry: manifest", "registry: tail", "registry: base", "session"}
	const partition = 32768
	at := func(off int64) func(int64) int64 { return func(int64) int64 { return off } }
	for name, tc := range map[string]struct {
		pattern string
		at      func(size int64) int64
		closed  []string // doors
	}{
		"image: head": {"blobs/*.sif", at(100), image},
		"image: base": {"blobs/*.sif", at(partition + 5000), nil}, // a hole, which is filled from the base

		"image: superblock": {"blobs/*.sif", at(partition + 10), image},
		"image: tail":       {"blobs/*.sif", at(partition + doc.Base.Cut + 50), nil}, // another, which is filled from the packs

		"image: manifest": {"blobs/*.sif", at(partition + doc.Base.Cut + doc.Tail.Size - 96 + 20), image},
		"base: contents":  {"bases/*.sqfs", at(5000), image},
		"base: head":      {"bases/*.sqfs", at(8), image},
		"base: tables":    {"bases/*.sqfs", func(size int64) int64 { return doc.Base.Cut + 30 }, image},
		"tail: pack":      {"tails/*/*.pack", at(50), image},
		"tail: map":       {"tails/*/map.json", at(20), image},
		"document":        {"documents/*.json", at(40), slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "provenance" })},
		"statement":       {"statements/*/*.json", at(60), []string{"provenance"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, way := range all {
				data, err := doors()[way](d.copied(t, tc.pattern, tc.at), e)
				if err == nil && !bytes.Equal(data, whole[way]) {
					t.Errorf("%s: it gives %d bytes that it did not have", way, len(data))
				}
				if want := slices.Contains(tc.closed, way); want != (err != nil) {
					t.Errorf("%s: refused %v, want %v: %v", way, err != nil, want, err)
				}
				if err != nil && errs.Is(err, errs.Internal) {
					t.Errorf("%s: nobody knows what to do about %v", way, err)
				}
			}
		})
	}
}

// TestDamagedBaseIsPulledAnew: a base that is damaged here counts as one that is not here.
func TestDamagedBaseIsPulledAnew(t *testing.T) {
	there := newBlobStore(t)
	first := there.freeze("alice", "ana", "v1", "one")
	second := there.freeze("alice", "ana", "v2", "two")
	there.settle(first)
	there.settle(second)
	host := registrytest.Serve(t, there.handler())
	here := newBlobStore(t)
	pull := func(d *blobStoreOf, tag string) error {
		_, err := d.newShipper().Pull(t.Context(), userOf("bob"), hubapi.PullRequest{
			From: host + "/alice/ana:" + tag, Unsigned: true, Login: hubapi.RegistryLogin{Username: "alice", Password: "alice-token"},
		}, quiet)
		return err
	}
	here.must(pull(here, "v1"))
	c := here.copied(t, "bases/*.sqfs", func(size int64) int64 { return size / 2 })
	if err := pull(c, "v2"); err != nil {
		t.Fatal(err)
	}
	for _, e := range []records.Environment{first, second} {
		_, err := c.library.Verify(t.Context(), e.Digest)
		c.must(err)
	}
	if b, err := os.ReadDir(filepath.Join(c.dir, "library", "bases")); err != nil || len(b) != 1 || !c.library.HasBase(t.Context(), c.document(first.Digest).Base.Part) {
		t.Errorf("bases %v, %v", b, err)
	}
}
