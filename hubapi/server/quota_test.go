package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/spawner"
)

func fakeQuota(_ context.Context, c spawner.Caller) (hubapi.Quotas, error) {
	return hubapi.Quotas{User: string(c.User), Quotas: []hubapi.Quota{{Name: "home", Path: "/home/" + string(c.User), Kind: "user", Used: 95, Limit: 100, Percent: 95}}}, nil
}

func knownQuota(w spawner.Workload) []hubapi.Quota {
	return []hubapi.Quota{{Name: "home", Path: "/home/" + string(w.Owner), Kind: "user", Used: 95_000_000, Limit: 100_000_000, Percent: 95}}
}

func TestQuotaIsTheCallersOwn(t *testing.T) {
	h := start(t, newFake(), nil)
	var got hubapi.Quotas
	if status, text := h.data(t, "bob-token", "/quota?user=alice", &got); status != http.StatusOK || got.User != "bob" || len(got.Quotas) != 1 || got.Quotas[0].Percent != 95 {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := h.data(t, "nobody", "/quota", &got); status != http.StatusUnauthorized {
		t.Errorf("a stranger is told %d", status)
	}
	h = start(t, newFake(), func(c *Config) { c.Quota = nil })
	if status, text := h.data(t, "alice-token", "/quota", &got); status != http.StatusNotImplemented || !strings.Contains(text, "does not know") {
		t.Errorf("%d %s", status, text)
	}
}
