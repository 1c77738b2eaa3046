package jobfiles_test

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/internal/testenv"
)

var errBroke = errors.New("it broke off")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroke }

// TestBlobsAreWhole: what is not what it should be, breaks off or has no room leaves nothing.
func TestBlobsAreWhole(t *testing.T) {
	s := newSite(t)
	err := s.PutBlob(t.Context(), alice, digestOf("data"), strings.NewReader("Data"))
	if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), digestOf("data")) ||
		!strings.Contains(err.Error(), digestOf("Data")) {
		t.Error(err)
	}
	if err := s.PutBlob(t.Context(), alice, digestOf("data"), failing{}); !errors.Is(err, errBroke) {
		t.Error(err)
	}
	s.config.Room = func(string) (int64, error) { return 3, nil }
	s.restart()
	if err := s.put("data"); !errs.Is(err, errs.NoSpace) {
		t.Error(err)
	}
	if left := s.kept(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := s.put("abc"); err != nil {
		t.Errorf("what just fits: %v", err)
	}
}

// TestBlobsAreOneUsers: a blob is found and opened by its user alone.
func TestBlobsAreOneUsers(t *testing.T) {
	s := newSite(t)
	if err := s.put("data"); err != nil {
		t.Fatal(err)
	}
	if _, found := s.FindBlob(alice, digestOf("data")); !found {
		t.Error("it is not found")
	}
	if _, found := s.FindBlob(bob, digestOf("data")); found {
		t.Error("another user finds it")
	}
	r, err := s.OpenBlob(alice, digestOf("data"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); string(b) != "data" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	s.write("secret", "text")
	if _, found := s.FindBlob(alice, "sha256:../../secret"); found {
		t.Error("what is no blob is found")
	}
	if _, err := s.OpenBlob(alice, "sha256:../../secret"); !errs.Is(err, errs.Invalid) {
		t.Errorf("what is no blob: %v", err)
	}
	err = s.PutBlob(t.Context(), alice, "sha256:../../secret", strings.NewReader("text"))
	if !errs.Is(err, errs.Invalid) {
		t.Errorf("what is no blob is put: %v", err)
	}
	if _, err := s.OpenBlob(bob, digestOf("data")); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}

// halfway gives some bytes, says so, and then waits to break off.
type halfway struct {
	text io.Reader
	read chan<- bool
	end  <-chan bool
}

func (r *halfway) Read(p []byte) (int, error) {
	if n, err := r.text.Read(p); err == nil {
		return n, nil
	}
	r.read <- true
	<-r.end
	return 0, errBroke
}

// TestBlobsThatBreakOffDoNotCount: what is being put counts as it comes, and not any more when it has broken off.
func TestBlobsThatBreakOffDoNotCount(t *testing.T) {
	s := newSite(t)
	s.quota = 1000
	read, end, broke := make(chan bool), make(chan bool), make(chan error)
	go func() {
		text := &halfway{strings.NewReader(strings.Repeat("x", 900)), read, end}
		broke <- s.PutBlob(t.Context(), alice, digestOf("never"), text)
	}()
	<-read
	if err := s.put(strings.Repeat("y", 200)); !errs.Is(err, errs.OverQuota) || s.refused.Load() != 1 {
		t.Errorf("beside one under way: %v, %d refused", err, s.refused.Load())
	}
	if err := s.put("small"); err != nil {
		t.Error(err)
	}
	close(end)
	if err := <-broke; !errors.Is(err, errBroke) {
		t.Error(err)
	}
	if err := s.put(strings.Repeat("y", 200)); err != nil {
		t.Errorf("after it broke off: %v", err)
	}
	if u := s.Usage(alice); u.Bytes != 205 || u.Unused != 205 {
		t.Errorf("%+v", u)
	}
}

// TestBlobsAtOnceAreWithinTheQuota: many that are put at once are no more than one user may.
func TestBlobsAtOnceAreWithinTheQuota(t *testing.T) {
	s := newSite(t)
	s.quota = 200_000
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { _ = s.put(strings.Repeat(string(rune('A'+i)), 100_000)) })
	}
	all.Wait()
	if n := len(s.kept()); n > 2 {
		t.Errorf("%d files are kept", n)
	}
	if u := s.Usage(alice); u.Bytes != int64(len(s.kept()))*100_000 {
		t.Errorf("%d files count %+v", len(s.kept()), u)
	}
}

// TestRoomIsLookedAtWhileAFileComes: others fill the disk meanwhile.
func TestRoomIsLookedAtWhileAFileComes(t *testing.T) {
	s := newSite(t)
	looks := 0
	s.config.Room = func(string) (int64, error) {
		if looks++; looks > 1 {
			return 0, nil
		}
		return 1 << 40, nil
	}
	s.restart()
	if err := s.put(strings.Repeat("x", 17<<20)); !errs.Is(err, errs.NoSpace) || len(s.kept()) > 0 {
		t.Errorf("%v, kept %v", err, s.kept())
	}
}

// TestPartialBlobsGoAtStart: what a killed service has left of an upload is gone when the next one begins.
func TestPartialBlobsGoAtStart(t *testing.T) {
	s := newSite(t)
	if err := s.put("whole"); err != nil {
		t.Fatal(err)
	}
	path, _ := s.FindBlob(alice, digestOf("whole"))
	left := filepath.Join(filepath.Dir(path), ".new-123")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.restart()
	if kept := s.kept(); len(kept) != 1 || "sha256:"+filepath.Base(kept[0]) != digestOf("whole") {
		t.Errorf("kept: %v", kept)
	}
}

// TestBlobsExpire: a blob goes a day after it was last asked for, unless a job has it; one from the future counts from
// now.
func TestBlobsExpire(t *testing.T) {
	s, begun := newSite(t), time.Now()
	for _, text := range []string{"used", "idle", "future"} {
		if err := s.put(text); err != nil {
			t.Fatal(err)
		}
	}
	used, _ := s.FindBlob(alice, digestOf("used"))
	if err := s.MakeBundle("j-1", nil, map[string]string{"in": used}); err != nil {
		t.Fatal(err)
	}
	future, _ := s.FindBlob(alice, digestOf("future"))
	ahead := begun.Add(100 * time.Hour)
	if err := os.Chtimes(future, ahead, ahead); err != nil {
		t.Fatal(err)
	}
	for after, want := range []struct {
		hours         time.Duration
		kept          int
		unused, bytes int64
	}{{20, 4, 10, 12}, {26, 3, 6, 8}, {40, 3, 6, 8}, {50, 2, 0, 2}} {
		s.ExpireBlobs(begun.Add(want.hours * time.Hour))
		if u := s.Usage(alice); len(s.kept()) != want.kept || u.Unused != want.unused || u.Bytes != want.bytes {
			t.Errorf("%d: after %d h %q are kept, which count %+v", after, want.hours, s.kept(), u)
		}
	}
	s.restart()
	if s.ExpireBlobs(begun); s.Usage(alice).Bytes != 2 {
		t.Errorf("after a restart: %+v", s.Usage(alice))
	}
}

// TestBlobsOnAFullDisk: wherever the disk turns out to be full, the caller is told so, and nothing is left.
func TestBlobsOnAFullDisk(t *testing.T) {
	testenv.Need(t, testenv.Root)
	s := newSite(t)
	blobs := filepath.Join(filepath.Dir(s.config.Dir), "blobs")
	if err := os.MkdirAll(blobs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("slipway-test", blobs, "tmpfs", 0, "size=1m,nr_inodes=5,mode=0700"); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(blobs, syscall.MNT_DETACH) })
	random := make([]byte, 2<<20)
	_, _ = rand.Read(random)
	refused := func(step string) {
		t.Helper()
		err := s.put(string(random))
		if !errs.Is(err, errs.NoSpace) || !strings.Contains(err.Error(), "disk is full") ||
			!strings.Contains(err.Error(), "administrator") {
			t.Errorf("%s: %v", step, err)
		}
		if kept := s.kept(); len(kept) > 0 {
			t.Errorf("%s: left %v", step, kept)
		}
	}
	refused("while it is written")
	path, _ := s.FindBlob(alice, digestOf("any"))
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	fillUp(t, filepath.Join(blobs, "ballast"))
	refused("before a byte")
}

// fillUp fills a disk to its last byte.
func fillUp(t *testing.T, ballast string) {
	t.Helper()
	if err := os.Mkdir(ballast, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(ballast, ".owner"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, io.LimitReader(rand.Reader, 1<<30)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
