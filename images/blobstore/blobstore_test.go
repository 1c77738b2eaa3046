package blobstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
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

func newMirror(t testing.TB, copies int, members ...Store) (*Mirror, *[]Trouble) {
	t.Helper()
	var list []Trouble
	cfg := MirrorConfig{Copies: copies, Trouble: func(tr Trouble) { list = append(list, tr) }}
	for i, s := range members {
		cfg.Members = append(cfg.Members, Member{Name: string(rune('a' + i)), Store: s})
	}
	m, err := NewMirror(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m, &list
}

// TestStores is what every kind of store must do.
func TestStores(t *testing.T) {
	_, inS3 := newS3(t)
	_, inS3Too := newS3(t)
	mirror, _ := newMirror(t, 2, newDir(t), inS3Too)
	for name, s := range map[string]Store{"directory": newDir(t), "S3": inS3, "mirror": mirror} {
		t.Run(name, func(t *testing.T) { testStore(t, s) })
	}
}

func testStore(t *testing.T, s Store) {
	ctx := context.Background()
	data := noise(1, 3<<20+5)
	digest := blob.Digest(data)
	if _, err := s.Stat(ctx, digest); !errs.Is(err, errs.NotFound) && !strings.Contains(err.Error(), "no store has") {
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

// faulty is a store whose reads or writes fail.
type faulty struct {
	Store
	put, get error
	after    int64 // a read breaks after so many bytes; 0: it never does
}

func (f *faulty) Put(ctx context.Context, digest string, b blob.Blob) error {
	if f.put != nil {
		return f.put
	}
	return f.Store.Put(ctx, digest, b)
}

func (f *faulty) Get(ctx context.Context, digest string, offset, length int64) (io.ReadCloser, error) {
	if f.get != nil {
		return nil, f.get
	}
	r, err := f.Store.Get(ctx, digest, offset, length)
	if err == nil && f.after > 0 {
		return io.NopCloser(io.MultiReader(io.LimitReader(r, f.after), iotest.ErrReader(errors.New("the disk is gone")))), nil
	}
	return r, err
}

func (f *faulty) List(ctx context.Context) iter.Seq2[Info, error] {
	if f.get != nil {
		return func(yield func(Info, error) bool) { yield(Info{}, f.get) }
	}
	return f.Store.List(ctx)
}

func TestMirrorWritesEnoughCopies(t *testing.T) {
	ctx, data := context.Background(), noise(1, 1000)
	digest, down := blob.Digest(data), errors.New("down")
	first, second, third := &faulty{Store: newDir(t)}, &faulty{Store: newDir(t), put: down}, &faulty{Store: newDir(t)}
	m, troubles := newMirror(t, 0, first, second, third)
	if err := m.Put(ctx, digest, blob.Bytes(data)); err != nil || len(*troubles) != 1 || (*troubles)[0].Store != "b" {
		t.Errorf("%v, %+v", err, *troubles)
	}
	third.put = down
	if err := m.Put(ctx, blob.Digest(nil), blob.Bytes(nil)); !errs.Is(err, errs.Unavailable) || !errors.Is(err, down) {
		t.Errorf("one copy of two: %v", err)
	}
	for _, copies := range []int{3, -1} {
		if _, err := NewMirror(MirrorConfig{Members: []Member{{"a", first}, {"b", second}}, Copies: copies}); !errs.Is(err, errs.Invalid) {
			t.Errorf("%d copies in two stores: %v", copies, err)
		}
	}
}

func TestMirrorReadsFromAnyStore(t *testing.T) {
	ctx, data := context.Background(), noise(1, 1<<20)
	digest := blob.Digest(data)
	first, second := &faulty{Store: newDir(t), after: 1000}, &faulty{Store: newDir(t)}
	m, troubles := newMirror(t, 2, first, second)
	if err := m.Put(ctx, digest, blob.Bytes(data)); err != nil {
		t.Fatal(err)
	}
	if err := Verify(ctx, m, digest); err != nil || len(*troubles) != 1 {
		t.Errorf("broken in the middle: %v, %+v", err, *troubles)
	}
	r, err := m.Get(ctx, digest, 500, 5000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data[500:5500]) {
		t.Errorf("a range: %d bytes, %v", len(got), err)
	}
	first.get = errors.New("down")
	if err := Verify(ctx, m, digest); err != nil {
		t.Errorf("one is down: %v", err)
	}
	if got := listed(t, m); len(got) != 1 {
		t.Errorf("%q", got)
	}
	second.get = errors.New("down too")
	if _, err := m.Get(ctx, digest, 0, -1); !errors.Is(err, first.get) || !errors.Is(err, second.get) {
		t.Errorf("all are down: %v", err)
	}
	for _, err := range m.List(ctx) {
		if !errs.Is(err, errs.Unavailable) {
			t.Errorf("listed: %v", err)
		}
	}
}

// damage changes a byte of a copy, whose size stays.
func damage(t *testing.T, d *Dir, digest string) {
	t.Helper()
	path, err := d.path(digest)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMirrorHeals(t *testing.T) {
	ctx := context.Background()
	_, s3 := newS3(t)
	dirs := []*Dir{newDir(t), newDir(t)}
	m, _ := newMirror(t, 3, dirs[0], dirs[1], s3)
	var digests []string
	for seed := range byte(3) {
		data := noise(seed, 5<<20)
		digests = append(digests, blob.Digest(data))
		if err := m.Put(ctx, blob.Digest(data), blob.Bytes(data)); err != nil {
			t.Fatal(err)
		}
	}
	damage(t, dirs[0], digests[0])
	if err := errors.Join(s3.Delete(ctx, digests[0]), dirs[1].Delete(ctx, digests[1])); err != nil {
		t.Fatal(err)
	}
	r, err := m.Get(ctx, digests[0], 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); !errs.Is(err, errs.Invalid) {
		t.Errorf("%d damaged bytes were read: %v", n, err)
	}
	list, err := m.HealAll(ctx)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, tr := range list {
		if !tr.Healed || tr.Err == nil {
			t.Errorf("%+v", tr)
		}
	}
	for _, digest := range digests {
		for _, s := range []Store{dirs[0], dirs[1], s3} {
			if err := Verify(ctx, s, digest); err != nil {
				t.Error(err)
			}
		}
	}
	if list, err := m.HealAll(ctx); err != nil || len(list) > 0 {
		t.Errorf("the second time: %+v, %v", list, err)
	}
	damage(t, dirs[0], digests[2])
	damage(t, dirs[1], digests[2])
	if err := s3.Delete(ctx, digests[2]); err != nil {
		t.Fatal(err)
	}
	if list, err := m.Heal(ctx, digests[2]); !errs.Is(err, errs.Invalid) || len(list) != 3 || list[0].Healed {
		t.Errorf("no good copy: %+v, %v", list, err)
	}
}

// TestACopyThatCannotBeReadNowIsLeftAsItIs: it may be good.
func TestACopyThatCannotBeReadNowIsLeftAsItIs(t *testing.T) {
	ctx, data := context.Background(), noise(1, 1000)
	bad := &faulty{Store: newDir(t)}
	m, _ := newMirror(t, 2, newDir(t), bad)
	if err := m.Put(ctx, blob.Digest(data), blob.Bytes(data)); err != nil {
		t.Fatal(err)
	}
	bad.get = errors.New("down")
	list, err := m.Heal(ctx, blob.Digest(data))
	if err != nil || len(list) != 1 || list[0].Healed {
		t.Errorf("%+v, %v", list, err)
	}
	damage(t, m.cfg.Members[0].Store.(*Dir), blob.Digest(data))
	if list, err := m.Heal(ctx, blob.Digest(data)); !errs.Is(err, errs.Unavailable) || len(list) != 2 {
		t.Errorf("the other one is damaged: %+v, %v", list, err)
	}
	bad.get = nil
	if err := Verify(ctx, bad, blob.Digest(data)); err != nil {
		t.Error(err)
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
