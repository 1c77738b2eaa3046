package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
)

// fakePool has one kind of GPU and says since when its history was asked for.
type fakePool struct{ err error }

func (f fakePool) GPUs(_ context.Context, since time.Time) (hubapi.PoolGPUs, error) {
	all := hubapi.PoolGPUs{Machines: 1, Kinds: []hubapi.PoolGPU{{Model: "NVIDIA H200"}}}
	if !since.IsZero() {
		all.History = []hubapi.PoolHistory{{Taken: since}}
	}
	return all, f.err
}

func (f fakePool) ClassAds(context.Context) (string, error) {
	return "[ DeviceName = \"NVIDIA H200\" ]\n", f.err
}

func TestPoolGPUs(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.Pool = fakePool{} })
	status, text := h.gpusAs(t, "bob-token", "/pool?history=24h")
	var got hubapi.PoolGPUs
	if err := json.Unmarshal([]byte(text), &got); status != http.StatusOK || err != nil || len(got.Kinds) != 1 || len(got.History) != 1 {
		t.Fatalf("%d %s", status, text)
	}
	if back := time.Since(got.History[0].Taken); back < 24*time.Hour || back > 25*time.Hour {
		t.Errorf("24h of history are asked for as %s", back)
	}
	for query, want := range map[string]struct {
		status int
		says   string
	}{
		"":                {200, `"history":null`},
		"?format=classad": {200, "[ DeviceName"}, "?format=glue": {422, "classad"}, "?history=x": {422, "24h"}, "?history=-1h": {422, "24h"}, "?history=721h": {422, "24h"},
	} {
		if status, text := h.gpusAs(t, "bob-token", "/pool"+query); status != want.status || !strings.Contains(text, want.says) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	if status, _ := h.gpusAs(t, "nobody", "/pool"); status != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d", status)
	}
}

func TestPoolThatCannotBeAsked(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.Pool = fakePool{errs.New(errs.Unavailable, "the collector is gone")} })
	for _, query := range []string{"", "?format=classad"} {
		if status, text := h.gpusAs(t, "bob-token", "/pool"+query); status != http.StatusServiceUnavailable || !strings.Contains(text, "collector") {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	if status, text := start(t, newFake(), func(*Config) {}).gpusAs(t, "bob-token", "/pool"); status != http.StatusNotImplemented {
		t.Errorf("without a pool: %d %s", status, text)
	}
}
