package jobfiles_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/spawner"
)

// TestPartialOutputsGo: what a killed service has left of a file that it fetched is not counted, and goes.
func TestPartialOutputsGo(t *testing.T) {
	s := newSite(t)
	s.records["j-1"] = true
	s.write("workloads/j-1/log", "12345")
	s.write("workloads/j-1/run/scratch", "12345")
	now := s.write("workloads/j-1/files/.new-456", "12345")
	before := s.write("workloads/j-1/files/.new-123", "12345")
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(before, long, long); err != nil {
		t.Fatal(err)
	}
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(now, ahead, ahead); err != nil { // the disk's clock is coarse
		t.Fatal(err)
	}
	s.Measure("j-1", alice)
	left := strings.Join(s.kept(), " ")
	if size := s.SizeOf("j-1"); size.Files != 2 || size.Bytes != 10 || strings.Contains(left, "123") {
		t.Errorf("%+v, %q", size, left)
	}
	s.Uncount("j-1")
	if s.Usage(alice).Bytes != 0 {
		t.Errorf("%+v", s.Usage(alice))
	}
	s.records["j-1"] = false
	if s.Measure("j-1", alice); s.Usage(alice).Bytes != 0 {
		t.Errorf("without a record: %+v", s.Usage(alice))
	}
}

// TestMeasureAll: everything is counted at the start, and again after an hour.
func TestMeasureAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.config.Owners = func() (jobs, bundles map[spawner.ID]spawner.Principal) {
			return map[spawner.ID]spawner.Principal{"j-1": alice, "j-2": bob},
				map[spawner.ID]spawner.Principal{"j-1": alice}
		}
		s.restart()
		s.records["j-1"], s.records["j-2"] = true, true
		s.write("workloads/j-1/log", "1234")
		s.write("workloads/j-2/log", "1")
		s.write("inputs/j-1/a", "12345678")
		ctx, cancel := context.WithCancel(t.Context())
		var measuring sync.WaitGroup
		measuring.Go(func() { s.MeasureAll(ctx) })
		synctest.Wait()
		s.write("workloads/j-1/log", "12345")
		if a, b := s.Usage(alice).Bytes, s.Usage(bob).Bytes; a != 12 || b != 1 {
			t.Errorf("alice keeps %d, bob %d", a, b)
		}
		time.Sleep(2 * time.Hour)
		if a := s.Usage(alice).Bytes; a != 13 {
			t.Errorf("later alice keeps %d", a)
		}
		cancel()
		measuring.Wait()
	})
}
