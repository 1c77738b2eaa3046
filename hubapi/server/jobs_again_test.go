package server

import (
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
	"slipway/spawner/catalog"
)

func TestJobIsTriedAgain(t *testing.T) {
	failed, done := point(3, spawner.Stopped, &spawner.Outcome{Failed: true}), point(2, spawner.Stopped, &spawner.Outcome{})
	failed.Spec.Resources = spawner.Resources{CPUs: 2, Memory: 1 << 30}
	runs := point(1, spawner.Running, nil)
	runs.Spec.Resources = failed.Spec.Resources
	h := start(t, newFake(failed, done, runs), nil)
	c := h.client(t, "alice-token")
	j, err := c.RetryJob(t.Context(), "j-3", hubapi.RetryRequest{
		JobLimits: hubapi.JobLimits{Memory: "2G", TimeLimit: "10m"}, RequestID: "a",
	})
	if err != nil || j.Attempt != 2 || j.CPUs != 2 || j.Memory != "2G" || j.TimeLimit != "10m0s" || j.State != hubapi.JobPending {
		t.Errorf("%+v, %v", j, err)
	}
	for name, tc := range map[string]struct {
		r    hubapi.RetryRequest
		kind errs.Kind
		word string
	}{
		"of what runs":    {hubapi.RetryRequest{States: []hubapi.State{"running"}}, errs.Invalid, "states"},
		"with too much":   {hubapi.RetryRequest{JobLimits: hubapi.JobLimits{Memory: "5T"}}, errs.Invalid, "memory"},
		"of what goes on": {hubapi.RetryRequest{}, errs.Conflict, "j-1"},
	} {
		if _, err := c.RetryJob(t.Context(), "j-1", tc.r); !errs.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%s: %v", name, err)
		}
	}
	again, err := c.RetryScan(t.Context(), "scan-1", hubapi.RetryRequest{States: []hubapi.State{hubapi.JobDone}})
	if err != nil || again.Changed != 1 || again.Scan.States[hubapi.JobPending] != 2 {
		t.Errorf("%+v, %v", again, err)
	}
}

// What was canceled was ended on purpose.
func TestScanRetriesWhatFailed(t *testing.T) {
	h := start(t, newFake(point(0, spawner.Stopped, &spawner.Outcome{Failed: true}), point(1, spawner.Stopped, &spawner.Outcome{Canceled: true})), nil)
	again, err := h.client(t, "alice-token").RetryScan(t.Context(), "scan-1", hubapi.RetryRequest{})
	if err != nil || again.Changed != 1 || again.Scan.States[hubapi.JobCanceled] != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// An administrator sees and cancels what is another's, and has nothing run as her.
func TestOnlyItsOwnerTriesAgain(t *testing.T) {
	h := start(t, newFake(point(0, spawner.Stopped, &spawner.Outcome{Failed: true})), func(c *Config) { c.Hubs[0].Admins = []string{"root"} })
	c := h.client(t, "root-token")
	if _, err := c.Job(t.Context(), "j-0"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RetryJob(t.Context(), "j-0", hubapi.RetryRequest{}); !errs.Is(err, errs.Forbidden) {
		t.Error(err)
	}
	if _, err := c.RetryScan(t.Context(), "scan-1", hubapi.RetryRequest{}); !errs.Is(err, errs.Forbidden) {
		t.Error(err)
	}
	if got := h.engine.acted; len(got) > 0 {
		t.Errorf("asked of the engine: %q", got)
	}
}

func TestJobIsSubmittedAnew(t *testing.T) {
	old := point(3, spawner.Stopped, &spawner.Outcome{Failed: true})
	old.Spec.Resources = spawner.Resources{CPUs: 2, Memory: 1 << 30}
	h := start(t, newFake(old, point(2, spawner.Stopped, &spawner.Outcome{})), func(c *Config) { c.Hubs[0].Admins = []string{"root"} })
	c := h.client(t, "alice-token")
	j, err := c.ResubmitJob(t.Context(), "j-3", hubapi.ResubmitRequest{
		JobLimits: hubapi.JobLimits{Memory: "2G"}, RequestID: "a",
	})
	if err != nil || j.Origin != "j-3" || j.Scan != "" || j.Memory != "2G" || j.CPUs != 2 || j.ID == "j-3" {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := c.ResubmitJob(t.Context(), "j-3", hubapi.ResubmitRequest{GPU: "whole"}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "gpu") {
		t.Error(err)
	}
	all, err := c.ResubmitScan(t.Context(), "scan-1", hubapi.ResubmitRequest{})
	if err != nil || all.Scans[0].ID != "scan-again" || all.Scans[0].Points != 2 || len(all.Jobs) != 2 || all.Jobs[1].Scan != "scan-again" || all.Jobs[1].Origin != "j-3" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, words := range []string{`msg="a job is submitted anew"`, `msg="a scan is submitted anew" scan=scan-again points=2`} {
		h.saysInLog(t, words)
	}
	root := h.client(t, "root-token")
	if _, err := root.ResubmitScan(t.Context(), "scan-1", hubapi.ResubmitRequest{}); !errs.Is(err, errs.Forbidden) {
		t.Error(err)
	}
}

// TestJobMovesWithinTheLimits: on another backend a job may have what it may there, also where nothing of that is
// named.
func TestJobMovesWithinTheLimits(t *testing.T) {
	old := point(3, spawner.Stopped, &spawner.Outcome{Failed: true})
	old.Backend, old.Spec.Resources = "pool", spawner.Resources{CPUs: 32, Memory: 1 << 30}
	h := start(t, newFake(old), func(c *Config) { c.Jobs.Most = map[string]catalog.JobMost{"pool": {CPUs: 32}} })
	c := h.client(t, "alice-token")
	if _, err := c.ResubmitJob(t.Context(), "j-3", hubapi.ResubmitRequest{Backend: "local"}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "cpus") {
		t.Error(err)
	}
	if j, err := c.ResubmitJob(t.Context(), "j-3", hubapi.ResubmitRequest{Backend: "pool"}); err != nil || j.CPUs != 32 {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestBlobsArePut(t *testing.T) {
	h := start(t, newFake(), nil)
	c := h.client(t, "alice-token")
	digest := "sha256:" + strings.Repeat("ab", 32)
	if has, err := c.HasBlob(t.Context(), digest); has || err != nil {
		t.Errorf("before: %v, %v", has, err)
	}
	if err := c.PutBlob(t.Context(), digest, 7, strings.NewReader("a value")); err != nil {
		t.Fatal(err)
	}
	if has, err := c.HasBlob(t.Context(), digest); !has || err != nil || h.engine.blobs[0] != "alice "+digest+" a value" {
		t.Errorf("after: %v, %v, %q", has, err, h.engine.blobs)
	}
	if has, err := h.client(t, "bob-token").HasBlob(t.Context(), digest); has || err != nil {
		t.Errorf("another's: %v, %v", has, err)
	}
}
