package engine_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/spawnertest"
)

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// kept returns the names of all files below the directory beside the jobs'.
func (s *service) kept() (all []string) {
	dir := filepath.Join(filepath.Dir(s.config.Dir), "blobs")
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != ".owner" {
			all = append(all, d.Name())
		}
		return nil
	})
	return all
}

// TestBlobs: a file is put once, is what its digest says, is its user's alone, and a job has it as its input.
func TestBlobs(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Leave("out", h.Input("a")+h.Input("b")); h.Exit(0) })
		digest := digestOf("data")
		if s.HasBlob(t.Context(), alice, digest) {
			t.Error("it is there before it was put")
		}
		if err := s.PutBlob(t.Context(), hub, digest, strings.NewReader("data")); !errs.Is(err, errs.Forbidden) {
			t.Error(err)
		}
		for range 2 {
			if err := s.PutBlob(t.Context(), alice, digest, strings.NewReader("data")); err != nil {
				t.Fatal(err)
			}
		}
		if !s.HasBlob(t.Context(), alice, digest) || s.HasBlob(t.Context(), bob, digest) || len(s.kept()) != 1 {
			t.Errorf("kept: %v", s.kept())
		}
		r := simpleJob()
		r.Files, r.Blobs = map[string][]byte{"b": []byte("more")}, map[string]string{"a": digest}
		w := s.reach(s.submit(alice, r).ID, spawner.Stopped)
		if out := s.readFile(w.ID, "out"); out != "datamore" {
			t.Errorf("the job has %q", out)
		}
		for name, tt := range map[string]struct {
			c     spawner.Caller
			blobs map[string]string
			kind  errs.Kind
		}{
			"another's": {bob, map[string]string{"a": digest}, errs.NotFound},
			"not there": {alice, map[string]string{"a": digestOf("x")}, errs.NotFound},
			"no digest": {alice, map[string]string{"a": "sha256:../../x"}, errs.Invalid},
			"bad name":  {alice, map[string]string{"../a": digest}, errs.Invalid},
			"twice":     {alice, map[string]string{"b": digest}, errs.Invalid},
		} {
			r.Blobs = tt.blobs
			if _, err := s.SubmitJob(t.Context(), tt.c, r); !errs.Is(err, tt.kind) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})(t)
}

// TestBlobsAreSwept: what no job has goes after a day, what one has when she removes it.
func TestBlobsAreSwept(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Exit(0) })
		for _, text := range []string{"used", "idle"} {
			if err := s.PutBlob(t.Context(), alice, digestOf(text), strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		for _, text := range []string{"used", "idle"} { // put on the disk's clock, asked for on this one's
			s.HasBlob(t.Context(), alice, digestOf(text))
		}
		r := simpleJob()
		r.Blobs = map[string]string{"a": digestOf("used")}
		w := s.reach(s.submit(alice, r).ID, spawner.Stopped)
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		if len(s.kept()) != 2 {
			t.Errorf("after 20 h: %v", s.kept())
		}
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		if !s.HasBlob(t.Context(), alice, digestOf("used")) || s.HasBlob(t.Context(), alice, digestOf("idle")) {
			t.Errorf("after 26 h: %v", s.kept())
		}
		if err := s.Remove(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		if len(s.kept()) != 0 {
			t.Errorf("at last: %v", s.kept())
		}
	})(t)
}

// TestResubmit: a new job, or scan, with what the earlier one had but for what is named, once a request.
func TestResubmit(t *testing.T) {
	inPool(func(t *testing.T, s *distant) {
		s.crew.Boot(func(h *spawnertest.Hand) { h.Ready(); h.Print(h.App().Env["K"]); h.Exit(0) })
		r := poolJob()
		r.Name, r.Files, r.Retries, r.Out = "first", map[string][]byte{"in": []byte("input")}, 1, nil
		scan, err := s.SubmitScan(t.Context(), alice, r, points(4))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range scan {
			s.reach(j.ID, spawner.Stopped)
		}
		name := "second"
		again := spawner.Resubmission{Name: &name, SpecPatch: spawner.SpecPatch{Resources: &spawner.Resources{CPUs: 1, Memory: 3 << 30}}, RequestID: "anew"}
		jobs, err := s.Resubmit(t.Context(), alice, []spawner.ID{scan[1].ID, scan[3].ID}, again)
		if err != nil || len(jobs) != 2 {
			t.Fatalf("%d, %v", len(jobs), err)
		}
		same, err := s.Resubmit(t.Context(), alice, []spawner.ID{scan[1].ID, scan[3].ID}, again)
		if err != nil || len(same) != 2 || same[1].ID != jobs[1].ID {
			t.Errorf("the same request: %v, %v", same, err)
		}
		for i, old := range []spawner.Workload{scan[1], scan[3]} {
			w := s.reach(jobs[i].ID, spawner.Stopped)
			in, err := os.ReadFile(filepath.Join(filepath.Dir(s.config.Dir), "inputs", string(w.Bundle), "in"))
			if w.Origin != old.ID || w.Scan == old.Scan || w.Scan == "" || w.Point != i || w.Name != "second" || w.Spec.Resources.Memory != 3<<30 || w.Spec.Retries != 1 || string(in) != "input" ||
				w.Spec.Env["K"] != old.Spec.Env["K"] || w.Spec.Env[spawner.PointEnv] != old.Spec.Env[spawner.PointEnv] {
				t.Errorf("%+v, input %q, %v", w, in, err)
			}
		}
		one, err := s.Resubmit(t.Context(), alice, []spawner.ID{scan[0].ID}, spawner.Resubmission{Backend: "local", After: []string{jobs[0].Scan}})
		if err != nil || one[0].Scan != "" || one[0].Backend != "local" || one[0].Origin != scan[0].ID || s.reach(one[0].ID, spawner.Stopped).Outcome.Failed {
			t.Errorf("%+v, %v", one, err)
		}
		alone, err := s.Resubmit(t.Context(), alice, []spawner.ID{scan[0].ID}, spawner.Resubmission{Scan: true})
		if err != nil || len(alone) != 1 || alone[0].Scan == "" || alone[0].Scan == scan[0].Scan || alone[0].Origin != scan[0].ID {
			t.Errorf("a scan of one point: %+v, %v", alone, err)
		}
		other := s.submit(alice, poolJob())
		for name, tt := range map[string]struct {
			c    spawner.Caller
			ids  []spawner.ID
			kind errs.Kind
		}{
			"nothing":       {alice, nil, errs.Invalid},
			"not of a scan": {alice, []spawner.ID{scan[0].ID, other.ID}, errs.Invalid},
			"of another":    {bob, []spawner.ID{scan[0].ID}, errs.NotFound},
			"by an admin":   {admin, []spawner.ID{scan[0].ID}, errs.Forbidden},
		} {
			if _, err := s.Resubmit(t.Context(), tt.c, tt.ids, spawner.Resubmission{}); !errs.Is(err, tt.kind) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})(t)
}

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
	s.parts.Allowance = func(string, spawner.User) (spawner.Allowance, bool) {
		return spawner.Allowance{Storage: storage}, true
	}
	s.start()
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

// TestBlobsCountAfterARestart: also of a user who has no jobs, and they are cleared away by services that never last an
// hour.
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

// TestBlobThatGoesMeanwhile: one that is cleared away while a job is submitted with it is to be put again.
func TestBlobThatGoesMeanwhile(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		if err := s.put("data"); err != nil {
			t.Fatal(err)
		}
		s.kill()
		s.parts.Environment = func(_ context.Context, _ string, _ spawner.User, _ string) (string, error) {
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
