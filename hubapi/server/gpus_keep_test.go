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
	"slipway/internal/gpu"
)

// fakeKeeper knows GPU-1 alone.
type fakeKeeper struct{ done []string }

func (f *fakeKeeper) Drain(_ context.Context, name, by, why string) (string, error) {
	if name != "GPU-1" {
		return "", errs.New(errs.NotFound, "there is no GPU %q", name).With("there is 0 (GPU-1)")
	}
	f.done = append(f.done, "drain by "+by+": "+why)
	return name, nil
}

func (f *fakeKeeper) Resume(_ context.Context, name string) (string, string, error) {
	f.done = append(f.done, "resume "+name)
	return name, "used by alice's neighbour", nil
}

func (h *harness) post(t *testing.T, token, path, body string) (int, string) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodPost, h.front.URL+hubapi.Base+path, strings.NewReader(body))
	req.Header.Set("Authorization", "token "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func TestAdministratorsKeepGPUs(t *testing.T) {
	keeper := &fakeKeeper{}
	h := start(t, newFake(), func(c *Config) { c.GPUs, c.Keeper = heldByAlice, keeper })
	status, text := h.post(t, "root-token", "/gpus/GPU-1/drain", `{"why":" a loud fan "}`)
	var got hubapi.GPUChange
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK || got.GPU != "GPU-1" || got.Remark != "" || len(got.GPUs.GPUs) != 1 {
		t.Errorf("drain: %d %s", status, text)
	}
	if status, text := h.post(t, "root-token", "/gpus/GPU-1/resume", ""); status != http.StatusOK || !strings.Contains(text, `"remark":"used by`) || !strings.Contains(text, `"gpus":[{`) {
		t.Errorf("resume: %d %s", status, text)
	}
	if len(keeper.done) != 2 || keeper.done[0] != "drain by root of main: a loud fan" {
		t.Errorf("done: %q", keeper.done)
	}
	for body, want := range map[string]string{
		`{"why":"` + strings.Repeat("x", 201) + `"}`: "at most 200 bytes", `{"why":"two\nlines"}`: "one line", `{"why":"\u001b[31m"}`: "one line", `{"force":true}`: "no such field",
	} {
		if status, text := h.post(t, "root-token", "/gpus/GPU-1/drain", body); status != http.StatusUnprocessableEntity || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %s", body, status, text)
		}
	}
	if status, text := h.post(t, "root-token", "/gpus/7/drain", `{}`); status != http.StatusNotFound || !strings.Contains(text, "GPU-1") {
		t.Errorf("another GPU: %d %s", status, text)
	}
	if len(keeper.done) != 2 {
		t.Errorf("done: %q", keeper.done)
	}
}

// TestOthersKeepNoGPU: whoever is no administrator is refused before she learns which GPUs there are, and an
// administrator's own session is no administrator.
func TestOthersKeepNoGPU(t *testing.T) {
	keeper := &fakeKeeper{}
	h := start(t, newFake(lab("s-root", "root", "/user/root/")), func(c *Config) { c.GPUs, c.Keeper = heldByAlice, keeper })
	for _, path := range []string{"/gpus/GPU-1/drain", "/gpus/7/drain", "/gpus/GPU-1/resume", "/gpus/%2e%2e%2fGPU-1/resume"} {
		for _, token := range []string{"bob-token", "alice-token"} {
			if status, text := h.post(t, token, path, `{"why":"\u001b"}`); status != http.StatusForbidden || strings.Contains(text, "GPU-1") {
				t.Errorf("%s as %s: %d %s", path, token, status, text)
			}
		}
	}
	if len(keeper.done) != 0 {
		t.Errorf("done: %q", keeper.done)
	}
}

func TestNoGPUToKeep(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.GPUs = func() gpu.Inventory { return gpu.Inventory{} } })
	if status, text := h.post(t, "root-token", "/gpus/0/drain", `{}`); status != http.StatusNotImplemented || !strings.Contains(text, "gpu.driver") {
		t.Errorf("%d %s", status, text)
	}
}
