package engine_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// TestBlobsAreWhole: what is not what it should be, breaks off or has no room leaves nothing.
func TestBlobsAreWhole(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		err := s.PutBlob(t.Context(), alice, digestOf("data"), strings.NewReader("Data"))
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), digestOf("data")) || !strings.Contains(err.Error(), digestOf("Data")) {
			t.Error(err)
		}
		if err := s.PutBlob(t.Context(), alice, digestOf("data"), failing{}); !errors.Is(err, errBroke) {
			t.Error(err)
		}
		if err := s.PutBlob(t.Context(), hub, digestOf("data"), strings.NewReader("data")); !errs.Is(err, errs.Forbidden) {
			t.Error(err)
		}
		s.kill()
		s.config.Room = func(string) (int64, error) { return 3, nil }
		s.start()
		if err := s.PutBlob(t.Context(), alice, digestOf("data"), strings.NewReader("data")); !errs.Is(err, errs.NoSpace) {
			t.Error(err)
		}
		if left := s.kept(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})(t)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroke }

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
		again := spawner.Resubmission{Name: &name, Resources: &spawner.Resources{CPUs: 1, Memory: 3 << 30}, RequestID: "anew"}
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
