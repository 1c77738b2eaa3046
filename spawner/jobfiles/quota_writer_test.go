package jobfiles_test

import (
	"testing"

	"slipway/internal/errs"
)

// TestReserve: the bytes of input files count against the quota until they are counted as files.
func TestReserve(t *testing.T) {
	s := newSite(t)
	s.quota = 10
	release, err := s.Reserve(alice, 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reserve(alice, 3); !errs.Is(err, errs.OverQuota) || s.refused.Load() != 1 {
		t.Errorf("%v, %d refused", err, s.refused.Load())
	}
	if _, err := s.Reserve(alice, 0); err != nil {
		t.Errorf("nothing: %v", err)
	}
	if _, err := s.Reserve(bob, 10); err != nil {
		t.Errorf("another user: %v", err)
	}
	release()
	if _, err := s.Reserve(alice, 10); err != nil {
		t.Errorf("after release: %v", err)
	}
	s.quota = 0
	if _, err := s.Reserve(alice, 1<<50); err != nil {
		t.Errorf("without a quota: %v", err)
	}
}
