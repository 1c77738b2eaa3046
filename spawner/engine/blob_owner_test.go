package engine_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// stored returns how many bytes alice's jobs keep.
func (s *service) stored() spawner.Usage {
	s.t.Helper()
	u, err := s.Usage(s.t.Context(), alice)
	if err != nil {
		s.t.Fatal(err)
	}
	return u
}

func (s *service) put(text string) error {
	return s.PutBlob(s.t.Context(), alice, digestOf(text), strings.NewReader(text))
}

// allow restarts the service with a most for what a user's jobs keep.
func (s *service) allow(storage int64) {
	s.kill()
	s.config.Allowance = func(string, spawner.User) (spawner.Allowance, bool) {
		return spawner.Allowance{Storage: storage}, true
	}
	s.start()
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
	inBubble(func(t *testing.T, s *service) {
		s.allow(1000)
		read, end, broke := make(chan bool), make(chan bool), make(chan error)
		go func() {
			broke <- s.PutBlob(t.Context(), alice, digestOf("never"), &halfway{strings.NewReader(strings.Repeat("x", 900)), read, end})
		}()
		<-read
		if err := s.put(strings.Repeat("y", 200)); !errs.Is(err, errs.OverQuota) {
			t.Errorf("beside one under way: %v", err)
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
		if u := s.stored(); u.Stored != 205 || u.Inputs != 205 {
			t.Errorf("%+v", u)
		}
	})(t)
}

// TestBlobsAtOnceAreWithinTheQuota: many that are put at once are no more than one user may.
func TestBlobsAtOnceAreWithinTheQuota(t *testing.T) {
	s := newService(t)
	s.allow(200_000)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { _ = s.put(strings.Repeat(string(rune('A'+i)), 100_000)) })
	}
	all.Wait()
	if n := len(s.kept()); n > 2 {
		t.Errorf("%d files are kept", n)
	}
	if u := s.stored(); u.Stored != int64(len(s.kept()))*100_000 {
		t.Errorf("%d files count %+v", len(s.kept()), u)
	}
}

// TestBlobsCountAfterARestart: also of a user who has no jobs, and they are cleared away by services that never last an hour.
func TestBlobsCountAfterARestart(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.allow(1000)
		if err := s.put(strings.Repeat("x", 900)); err != nil {
			t.Fatal(err)
		}
		s.HasBlob(t.Context(), alice, digestOf(strings.Repeat("x", 900))) // on this clock
		s.restart()
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := s.put(strings.Repeat("y", 200)); !errs.Is(err, errs.OverQuota) || s.stored().Stored != 900 {
			t.Errorf("%v, and it counts %+v", err, s.stored())
		}
		for range 50 {
			time.Sleep(30 * time.Minute)
			s.restart()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if left, u := s.kept(), s.stored(); len(left) > 0 || u.Stored != 0 {
			t.Errorf("%v are left, and %+v counts", left, u)
		}
	})(t)
}

// TestBlobsBearWhatRemovedJobsDid: a file that a job had too is its user's alone when that is removed.
func TestBlobsBearWhatRemovedJobsDid(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(payload(0))
		if err := s.put(strings.Repeat("x", 1000)); err != nil {
			t.Fatal(err)
		}
		r := simpleJob()
		r.Blobs = map[string]string{"a": digestOf(strings.Repeat("x", 1000))}
		w := s.reach(s.submit(alice, r).ID, spawner.Stopped)
		if u := s.stored(); u.Inputs != 0 || u.Stored < 1000 {
			t.Errorf("with a job: %+v", u)
		}
		if err := s.Remove(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(w.ID)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if u := s.stored(); u.Stored != 1000 || u.Inputs != 1000 {
			t.Errorf("without: %+v", u)
		}
	})(t)
}

// TestRoomIsLookedAtWhileAFileComes: others fill the disk meanwhile.
func TestRoomIsLookedAtWhileAFileComes(t *testing.T) {
	s := newService(t)
	s.kill()
	looks := 0
	s.config.Room = func(string) (int64, error) {
		if looks++; looks > 1 {
			return 0, nil
		}
		return 1 << 40, nil
	}
	s.start()
	if err := s.put(strings.Repeat("x", 17<<20)); !errs.Is(err, errs.NoSpace) || len(s.kept()) > 0 {
		t.Errorf("%v, kept %v", err, s.kept())
	}
}

// TestBlobThatGoesMeanwhile: one that is cleared away while a job is submitted with it is to be put again.
func TestBlobThatGoesMeanwhile(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		if err := s.put("data"); err != nil {
			t.Fatal(err)
		}
		s.kill()
		s.config.Environment = func(_ context.Context, _ string, _ spawner.User, _ string) (string, error) {
			return "sha256:e", os.RemoveAll(filepath.Join(filepath.Dir(s.config.Dir), "blobs"))
		}
		s.start()
		r := simpleJob()
		r.Blobs = map[string]string{"a": digestOf("data")}
		if _, err := s.SubmitJob(t.Context(), alice, r); !errs.Is(err, errs.NotFound) {
			t.Error(err)
		}
	})(t)
}
