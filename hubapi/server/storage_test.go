package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"slipway/hubapi"
	"slipway/internal/errs"
	"slipway/spawner"
)

// fakeStorage has one element, and says what it was asked.
type fakeStorage struct{}

func (fakeStorage) List(context.Context, spawner.Caller) []hubapi.Storage {
	return []hubapi.Storage{{Name: "eos", Origin: "root://eos.example.org", Path: "/x"}}
}

func (fakeStorage) URL(lfn string, write, direct bool) (hubapi.DataURL, error) {
	if lfn == "" {
		return hubapi.DataURL{}, errs.Bad("lfn", lfn, "name a file")
	}
	return hubapi.DataURL{URL: lfn, Cached: !write && !direct}, nil
}

func (h *harness) data(t *testing.T, token, path string, into any) (int, string) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodGet, h.front.URL+hubapi.Base+path, nil)
	req.Header.Set("Authorization", "token "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	_ = json.Unmarshal(text, into)
	return resp.StatusCode, string(text)
}

func TestDataURLs(t *testing.T) {
	h := start(t, newFake(), nil)
	for query, want := range map[string]hubapi.DataURL{
		"?lfn=eos%3Aa%20b%2Bc":         {URL: "eos:a b+c", Cached: true},
		"?lfn=eos:a&write=true":        {URL: "eos:a"},
		"?lfn=eos:a&direct=1&write=no": {},
		"?lfn=eos:a&direct=true":       {URL: "eos:a"},
		"":                             {},
	} {
		var got hubapi.DataURL
		status, text := h.data(t, "alice-token", "/data/url"+query, &got)
		if refused := want == (hubapi.DataURL{}); got != want || refused != (status == http.StatusUnprocessableEntity) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
	var all hubapi.Storages
	if status, text := h.data(t, "bob-token", "/data", &all); status != http.StatusOK || len(all.Storage) != 1 || all.Storage[0].Name != "eos" {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := h.data(t, "nobody", "/data", &all); status != http.StatusUnauthorized {
		t.Errorf("a stranger is told %d", status)
	}
}

func TestSitesWithoutStorageSayHowToGetSome(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.Storage = nil })
	var all hubapi.Storages
	if status, text := h.data(t, "alice-token", "/data", &all); status != http.StatusOK || !strings.Contains(text, `"storage":[]`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := h.data(t, "alice-token", "/data/url?lfn=a", &all); status != http.StatusNotImplemented || !strings.Contains(text, "data.storage") {
		t.Errorf("%d %s", status, text)
	}
}
