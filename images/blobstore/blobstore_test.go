package blobstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/images/blob"
	"slipway/internal/errs"
	"slipway/internal/secret"
)

func noise(seed byte, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

func newDir(t testing.TB) *Dir {
	t.Helper()
	d, err := OpenDir(DirConfig{Path: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestStores is what every kind of store must do.
func TestStores(t *testing.T) {
	_, inS3 := newS3(t)
	for name, s := range map[string]Store{"directory": newDir(t), "S3": inS3} {
		t.Run(name, func(t *testing.T) { testStore(t, s) })
	}
}

func testStore(t *testing.T, s Store) {
	ctx := context.Background()
	data := noise(1, 3<<20+5)
	digest := blob.Digest(data)
	if _, err := s.Stat(ctx, digest); !errs.Is(err, errs.NotFound) {
		t.Errorf("nothing there: %v", err)
	}
	if _, err := s.Get(ctx, digest, 0, -1); err == nil {
		t.Error("nothing was read")
	}
	if err := s.Put(ctx, digest, blob.Bytes(data[1:])); err == nil {
		t.Error("other bytes were taken")
	}
	for range 2 { // the second time nothing is to be done
		if err := s.Put(ctx, digest, blob.Bytes(data)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := s.Stat(ctx, digest); err != nil || info.Size != int64(len(data)) || info.Modified.IsZero() {
		t.Errorf("%+v, %v", info, err)
	}
	for _, place := range [][2]int64{{0, -1}, {0, 10}, {1000, 1 << 20}, {5, -1}, {int64(len(data)), -1}, {int64(len(data)) - 3, 100}, {7, 0}, {0, 1}, {int64(len(data)), 5}} {
		r, err := s.Get(ctx, digest, place[0], place[1])
		if err != nil {
			t.Errorf("%v: %v", place, err)
			continue
		}
		want := data[place[0]:]
		if place[1] >= 0 {
			want = want[:min(int64(len(want)), place[1])]
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: %d bytes, %v", place, len(got), err)
		}
		r.Close()
	}
	for _, place := range [][2]int64{{int64(len(data)) + 1, 1}, {int64(len(data)) + 1, -1}, {-1, 5}, {-1, 0}} {
		if _, err := s.Get(ctx, digest, place[0], place[1]); err == nil {
			t.Errorf("read %v of %d bytes", place, len(data))
		}
	}
	more := []string{digest}
	for seed := byte(2); seed < 7; seed++ {
		d := noise(seed, 100)
		more = append(more, blob.Digest(d))
		if err := s.Put(ctx, blob.Digest(d), blob.Bytes(d)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(sorted(more), listed(t, s)); diff != "" {
		t.Error(diff)
	}
	for range s.List(ctx) {
		break // a reader that has enough
	}
	if b, err := Open(ctx, s, digest); err != nil {
		t.Error(err)
	} else if err := iotest.TestReader(io.NewSectionReader(b, 100, 30), data[100:130]); err != nil || Verify(ctx, s, digest) != nil {
		t.Errorf("opened: %v", err)
	}
	for range 2 {
		if err := s.Delete(ctx, digest); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(sorted(more[1:]), listed(t, s)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "../../etc/passwd", "sha256:../x", digest[:70]} {
		_, getErr := s.Get(ctx, bad, 0, -1)
		_, statErr := s.Stat(ctx, bad)
		if getErr == nil || statErr == nil || s.Put(ctx, bad, blob.Bytes(nil)) == nil || s.Delete(ctx, bad) == nil {
			t.Errorf("%q is taken for a digest", bad)
		}
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func listed(t *testing.T, s Store) []string {
	t.Helper()
	var all []string
	for info, err := range s.List(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.Digest)
	}
	return sorted(all)
}

func TestDirKeepsNothingHalf(t *testing.T) {
	ctx, d := context.Background(), newDir(t)
	data := noise(1, 1000)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := blob.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := d.Put(ctx, blob.Digest(data), from); err != nil { // a file, which may be shared
		t.Fatal(err)
	}
	if err := os.WriteFile(path, noise(2, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(ctx, blob.Digest([]byte("x")), from); !errs.Is(err, errs.Invalid) {
		t.Errorf("a changed file: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := d.Put(canceled, blob.Digest(nil), blob.Bytes(noise(3, 10))); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := Verify(ctx, d, blob.Digest(data)); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(d.cfg.Path)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	old, young := filepath.Join(d.cfg.Path, temporary+"1"), filepath.Join(d.cfg.Path, temporary+"2")
	past := time.Now().Add(-2 * abandoned)
	if err := errors.Join(os.WriteFile(old, nil, 0o600), os.WriteFile(young, nil, 0o600), os.Chtimes(old, past, past)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(d.cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what a killed writer left is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("what a writer is at was removed")
	}
}

// TestAStoreThatIsNotMountedHasNoAnswer: nobody takes an empty mount point for a store that has lost all.
func TestAStoreThatIsNotMountedHasNoAnswer(t *testing.T) {
	ctx, path, data := context.Background(), filepath.Join(t.TempDir(), "mnt"), noise(1, 10)
	d, err := OpenDir(DirConfig{Path: path, Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	_, statErr := d.Stat(ctx, blob.Digest(data))
	_, getErr := d.Get(ctx, blob.Digest(data), 0, -1)
	for what, err := range map[string]error{"stat": statErr, "get": getErr, "put": d.Put(ctx, blob.Digest(data), blob.Bytes(data))} {
		if !errs.Is(err, errs.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(ctx, blob.Digest(data), blob.Bytes(data)); err != nil {
		t.Error(err)
	}
}

func TestS3(t *testing.T) {
	ctx := context.Background()
	f, s := newS3(t)
	data := noise(1, 20<<20)
	f.fail = 2
	if err := s.Put(ctx, blob.Digest(data), blob.Bytes(data)); err != nil {
		t.Fatal(err)
	}
	if f.parts < 2 {
		t.Errorf("%d MB went in %d part", len(data)>>20, f.parts)
	}
	if err := Verify(ctx, s, blob.Digest(data)); err != nil {
		t.Error(err)
	}
	other := s.cfg
	other.SecretKey = secret.New("guessed")
	wrong, err := OpenS3(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := wrong.Put(ctx, blob.Digest(nil), blob.Bytes(nil)); !errs.Is(err, errs.Forbidden) || strings.Contains(err.Error(), "guessed") {
		t.Errorf("a wrong secret: %v", err)
	}
	other = s.cfg
	other.Bucket = "nowhere"
	if wrong, err = OpenS3(other); err != nil {
		t.Fatal(err)
	}
	if err := wrong.Put(ctx, blob.Digest(nil), blob.Bytes(nil)); !errs.Is(err, errs.Missing) {
		t.Errorf("no bucket: %v", err)
	}
	if _, err := OpenS3(S3Config{Endpoint: "https://x/y"}); !errs.Is(err, errs.Invalid) {
		t.Errorf("a bad endpoint: %v", err)
	}
}

func TestExport(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	e, err := OpenExport(root)
	if err != nil {
		t.Fatal(err)
	}
	one, two := noise(1, 1000), noise(2, 1000)
	if err := e.Publish(ctx, "alice", "ana", "v1", blob.Digest(one), blob.Bytes(one)); err != nil {
		t.Fatal(err)
	}
	if err := e.Publish(ctx, "alice", "ana", "v2", blob.Digest(two), blob.Bytes(two)); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "cvmfs") // the links must work wherever the tree is mounted
	if err := os.Rename(root, moved); err != nil {
		t.Fatal(err)
	}
	name, _ := blob.Hex(blob.Digest(one))
	for path, want := range map[string][]byte{"alice/ana/v1.sif": one, "alice/ana/v2.sif": two, name + ".sif": one} {
		if got, err := os.ReadFile(filepath.Join(moved, path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	if st, err := os.Stat(filepath.Join(moved, name+".sif")); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("others cannot read it: %v, %v", st, err)
	}
	if e, err = OpenExport(moved); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Withdraw("alice", "ana", "v2"), e.Withdraw("alice", "ana", "v2"), e.Remove(ctx, blob.Digest(two))); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(moved, "alice/ana/*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "v1.sif" {
		t.Errorf("%q, %v", left, err)
	}
	if err := e.Withdraw("alice", "ana", "v1"); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(moved, "alice")); len(left) > 0 {
		t.Errorf("empty directories are left: %q", left)
	}
	if _, err := OpenExport(filepath.Join(moved, "not", "mounted")); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a directory that is not there: %v", err)
	}
	for _, bad := range [][3]string{{"..", "ana", "v1"}, {"alice", "../..", "v1"}, {"alice", "ana", "../v1"}, {"Alice", "ana", "v1"}, {"alice", "", "v1"}, {"alice", "ana", ""}, {"alice", "ana", ".hidden"}} {
		if err := e.Publish(ctx, bad[0], bad[1], bad[2], blob.Digest(one), blob.Bytes(one)); !errs.Is(err, errs.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
		if err := e.Withdraw(bad[0], bad[1], bad[2]); !errs.Is(err, errs.Invalid) {
			t.Errorf("withdraw %q: %v", bad, err)
		}
	}
}
