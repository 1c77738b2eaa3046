package jobfiles_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"slipway/internal/errs"
	"slipway/spawner"
)

// TestBundle: input files come from the request and from blobs, count once, and go with the last job that has them.
func TestBundle(t *testing.T) {
	s := newSite(t)
	if err := s.put("from a blob"); err != nil {
		t.Fatal(err)
	}
	blob, _ := s.FindBlob(alice, digestOf("from a blob"))
	if err := s.MakeBundle("j-1", map[string][]byte{"a": []byte("12345")}, map[string]string{"b": blob}); err != nil {
		t.Fatal(err)
	}
	w := spawner.Workload{ID: "j-2", JobRecord: spawner.JobRecord{Bundle: "j-1"}, Spec: spawner.Spec{JobSpec: spawner.JobSpec{Inputs: []string{"a", "b"}}}}
	for name, want := range map[string]string{"a": "12345", "b": "from a blob"} {
		if got, err := os.ReadFile(filepath.Join(s.InputDir(w), name)); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := s.CheckInputs(w); err != nil {
		t.Error(err)
	}
	s.records["j-1"] = true
	s.MeasureBundle("j-1", alice)
	s.MeasureBlob(alice, digestOf("from a blob"))
	size, u := s.SizeOfBundle("j-1"), s.Usage(alice)
	if size.Files != 2 || size.Bytes != 5+11/2 || u.Bytes != 5+11/2+11/2 || u.Unused != 0 {
		t.Errorf("%+v, %+v", size, u)
	}
	if s.ClearBundle("j-1"); s.CheckInputs(w) != nil {
		t.Error("it went while a job had it")
	}
	s.records["j-1"] = false
	s.ClearBundle("j-1")
	if err := s.CheckInputs(w); !errs.Is(err, errs.Conflict) || s.SizeOfBundle("j-1").Files != 0 {
		t.Errorf("%v, %+v", err, s.SizeOfBundle("j-1"))
	}
	s.ExpireBundles(0) // has the blob counted again
	if u := s.Usage(alice); u.Bytes != 11 || u.Unused != 11 {
		t.Errorf("the blob is its user's alone: %+v", u)
	}
}

// TestBundleOfLostBlob: a blob that went meanwhile is to be put again.
func TestBundleOfLostBlob(t *testing.T) {
	s := newSite(t)
	path, _ := s.FindBlob(alice, digestOf("data"))
	if err := s.MakeBundle("j-1", nil, map[string]string{"a": path}); !errs.Is(err, errs.NotFound) {
		t.Error(err)
	}
}

// TestBundlesExpire: one that no job has is seen for five minutes before it goes.
func TestBundlesExpire(t *testing.T) {
	s := newSite(t)
	s.write("inputs/j-1/a", "x")
	s.write("inputs/j-2/a", "x")
	s.records["j-2"] = true
	for up, left := range []int{2, 2, 2, 2, 2, 1} {
		if s.ExpireBundles(time.Duration(up) * time.Minute); len(s.kept()) != left {
			t.Errorf("after %d min: %q", up, s.kept())
		}
	}
	s.records["j-2"] = false
	s.ExpireBundles(6 * time.Minute)
	s.records["j-2"] = true // a submission has it
	s.ExpireBundles(10 * time.Minute)
	s.records["j-2"] = false
	s.ExpireBundles(12 * time.Minute)
	if !slices.Equal(s.kept(), []string{"inputs/j-2/a"}) {
		t.Errorf("kept: %q", s.kept())
	}
}
