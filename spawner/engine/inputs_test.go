package engine_test

import (
	"encoding/json"
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

// bundles returns the names of the directories of input files, each with what is in it.
func (s *service) bundles() map[string][]string {
	dir, all := filepath.Join(filepath.Dir(s.config.Dir), "inputs"), map[string][]string{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		all[e.Name()] = []string{}
		files, _ := os.ReadDir(filepath.Join(dir, e.Name()))
		for _, f := range files {
			all[e.Name()] = append(all[e.Name()], f.Name())
		}
	}
	return all
}

// take plays a payload that leaves what it was given.
func take(h *spawnertest.Hand) { h.Ready(); h.Leave("out", h.Input("in")); h.Exit(0) }

// TestInputsLieOnce: the points of a scan, tries and those submitted anew have the same files, until the last of them
// is removed.
func TestInputsLieOnce(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(take)
		r := simpleJob()
		r.Files, r.Retries = map[string][]byte{"in": []byte("shared")}, 1
		scan, err := s.SubmitScan(t.Context(), alice, r, points(3))
		if err != nil {
			t.Fatal(err)
		}
		anew, err := s.Resubmit(t.Context(), alice, []spawner.ID{scan[1].ID, scan[2].ID}, spawner.Resubmission{})
		if err != nil {
			t.Fatal(err)
		}
		all := append(scan, anew...)
		for i, j := range all {
			if w := s.reach(j.ID, spawner.Stopped); w.Outcome.Failed || s.readFile(j.ID, "out") != "shared" {
				t.Errorf("%d: %+v", i, w.Outcome)
			}
		}
		synctest.Wait()
		if u, err := s.Usage(t.Context(), alice); err != nil || u.Stored != 6*int64(len("shared")) || len(u.Kept) != 2 || u.Kept[0].Bytes != 3*6+3 || u.Kept[1].Bytes != 2*6+2 {
			t.Errorf("%+v, %v", u, err)
		}
		s.restart()
		for i, j := range all {
			if got := s.bundles(); len(got) != 1 || len(got[string(scan[0].ID)]) != 1 {
				t.Errorf("with %d left: %v", len(all)-i, got)
			}
			if i == len(all)-1 {
				if _, err := s.Retry(t.Context(), alice, j.ID, spawner.Retry{Of: anyEnd}); err != nil {
					t.Error(err)
				}
				if w := s.reach(j.ID, spawner.Stopped); w.Outcome.Failed {
					t.Errorf("tried again with the files of the first: %+v", w.Outcome)
				}
			}
			if err := s.Remove(t.Context(), alice, j.ID); err != nil {
				t.Fatal(err)
			}
			s.gone(j.ID)
			synctest.Wait()
		}
		if u, err := s.Usage(t.Context(), alice); err != nil || len(s.bundles()) > 0 || u.Stored != 0 {
			t.Errorf("left: %v, %+v, %v", s.bundles(), u, err)
		}
	})(t)
}

// TestInputsOfBefore: a job of an old record has its files in its own directory, also when it is tried again or
// submitted anew.
func TestInputsOfBefore(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(take)
		r := simpleJob()
		r.Files = map[string][]byte{"in": []byte("old")}
		w := s.reach(s.submit(alice, r).ID, spawner.Stopped)
		s.kill()
		own := filepath.Join(s.config.Dir, string(w.ID), "inputs")
		if err := os.Rename(filepath.Join(filepath.Dir(s.config.Dir), "inputs", string(w.Bundle)), own); err != nil {
			t.Fatal(err)
		}
		w.Bundle = ""
		record, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.store.Put(t.Context(), "workloads", string(w.ID), json.RawMessage(record)); err != nil {
			t.Fatal(err)
		}
		s.start()
		if _, err := s.Retry(t.Context(), alice, w.ID, spawner.Retry{Of: anyEnd}); err != nil {
			t.Fatal(err)
		}
		s.reach(w.ID, spawner.Stopped)
		anew, err := s.Resubmit(t.Context(), alice, []spawner.ID{w.ID}, spawner.Resubmission{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(w.ID)
		n := s.reach(anew[0].ID, spawner.Stopped)
		if n.Outcome.Failed || n.Bundle != n.ID || s.readFile(n.ID, "out") != "old" {
			t.Errorf("%+v", n)
		}
	})(t)
}

// TestInputsWithoutJob: what a service that was killed has left of a submission goes after a while, what a job has
// stays; a submission that is refused leaves nothing.
func TestInputsWithoutJob(t *testing.T) {
	inBubble(func(t *testing.T, s *service) {
		s.crew.Boot(take)
		r := simpleJob()
		r.Files = map[string][]byte{"in": []byte("x")}
		w := s.reach(s.submit(alice, r).ID, spawner.Stopped)
		stray := filepath.Join(filepath.Dir(s.config.Dir), "inputs", "j-stray")
		if err := os.MkdirAll(stray, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.bundles()) != 2 {
			t.Errorf("too soon: %v", s.bundles())
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := s.bundles(); len(got) != 1 || len(got[string(w.ID)]) != 1 {
			t.Errorf("swept: %v", got)
		}
		if err := s.Remove(t.Context(), alice, w.ID); err != nil {
			t.Fatal(err)
		}
		s.gone(w.ID)
		synctest.Wait()
		if _, err := s.Resubmit(t.Context(), alice, []spawner.ID{w.ID}, spawner.Resubmission{}); !errs.Is(err, errs.NotFound) {
			t.Error(err)
		}
		r.Files["a/b"] = nil
		if _, err := s.SubmitJob(t.Context(), alice, r); !errs.Is(err, errs.Invalid) || len(s.bundles()) > 0 {
			t.Errorf("left: %v, %v", s.bundles(), err)
		}
	})(t)
}

// TestCrashWithInputs kills the service at each step of a scan with input files: every point that is known has them,
// and nothing is left of them in the end.
func TestCrashWithInputs(t *testing.T) {
	atEveryStep(t, "scan", func(t *testing.T, f *fuse) {
		s := newFated(t, f)
		s.crew.Boot(take)
		r := simpleJob()
		r.Files, r.RequestID = map[string][]byte{"in": []byte(strings.Repeat("x", 10))}, "once"
		var scan []spawner.Workload
		s.try(func() (err error) { scan, err = s.SubmitScan(t.Context(), alice, r, points(2)); return err })
		for _, j := range scan {
			if w := s.wait(j.ID, spawner.Stopped); w.Outcome == nil || w.Outcome.Failed && !f.lie { // it may be a start that is said to have failed
				t.Errorf("%d: %+v", j.Point, w.Outcome)
			}
		}
		for _, j := range scan {
			s.try(func() error {
				err := s.Remove(t.Context(), alice, j.ID)
				if errs.Is(err, errs.NotFound) {
					return nil
				}
				return err
			})
		}
		s.atRest()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if left := s.bundles(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
