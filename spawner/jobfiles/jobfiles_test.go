package jobfiles_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway/spawner"
	"slipway/spawner/jobfiles"
)

var alice, bob = spawner.Principal{Hub: "hub", User: "alice"}, spawner.Principal{Hub: "hub", User: "bob"}

// site is a Store with what it asks for.
type site struct {
	*jobfiles.Store
	t       *testing.T
	config  jobfiles.Config
	records map[spawner.ID]bool // also of bundles: which are needed
	refused atomic.Int64
	quota   int64
}

// newSite makes a Store on an empty disk with much room.
func newSite(t *testing.T) *site {
	s := &site{t: t, records: map[spawner.ID]bool{}}
	s.config = jobfiles.Config{
		Dir: filepath.Join(t.TempDir(), "workloads"), Logger: slog.New(slog.DiscardHandler),
		Room:      func(string) (int64, error) { return 1 << 40, nil },
		HasRecord: func(id spawner.ID) bool { return s.records[id] },
		Needed:    func(b spawner.ID) bool { return s.records[b] },
		Owners:    func() (jobs, bundles map[spawner.ID]spawner.Principal) { return nil, nil },
		Quota:     func(spawner.Principal) int64 { return s.quota },
		Refused:   func() { s.refused.Add(1) },
	}
	s.restart()
	return s
}

// restart makes another Store on the same disk.
func (s *site) restart() { s.Store = jobfiles.New(s.config) }

// write makes a file below the directory that holds that of the workloads.
func (s *site) write(path, text string) string {
	s.t.Helper()
	path = filepath.Join(filepath.Dir(s.config.Dir), path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// kept returns the paths of all files that are kept, but for the owners' of blobs, below the directory that holds that
// of the workloads.
func (s *site) kept() (all []string) {
	dir := filepath.Dir(s.config.Dir)
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != ".owner" {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return nil
	})
	return all
}

func (s *site) put(text string) error {
	return s.PutBlob(s.t.Context(), alice, digestOf(text), strings.NewReader(text))
}

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// TestClear: what a run needs, what a try leaves and all of a workload go each at their time; the rest stays.
func TestClear(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"link/a", "run/a", "files/a", "log", "inputs/a"} {
		s.write("workloads/j-1/"+name, "x")
	}
	s.write("workloads/j-2/log", "x")
	for _, tt := range []struct {
		clear func(spawner.ID) error
		left  []string
	}{
		{s.ClearRun, []string{
			"workloads/j-1/files/a", "workloads/j-1/inputs/a", "workloads/j-1/log", "workloads/j-2/log",
		}},
		{s.ClearTry, []string{"workloads/j-1/inputs/a", "workloads/j-2/log"}},
		{s.Remove, []string{"workloads/j-2/log"}},
	} {
		for range 2 {
			if err := tt.clear("j-1"); err != nil || !slices.Equal(s.kept(), tt.left) {
				t.Errorf("%q, %v; want %q", s.kept(), err, tt.left)
			}
		}
	}
}

// TestReapDirs: a directory without a record goes at the second look, if it is not new.
func TestReapDirs(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"known", "old", "new"} {
		s.write("workloads/"+id+"/log", "x")
	}
	s.records["known"] = true
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(s.Dir("old"), long, long); err != nil {
		t.Fatal(err)
	}
	before := map[spawner.ID]bool{}
	for _, left := range []int{3, 2, 2} {
		now := map[spawner.ID]bool{}
		if s.ReapDirs(before, now); len(s.kept()) != left {
			t.Errorf("%d are to be left: %q", left, s.kept())
		}
		before = now
	}
}
