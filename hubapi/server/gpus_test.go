package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// heldByAlice is an inventory of one GPU, of which alice has a slice and nobody another.
func heldByAlice() gpu.Inventory {
	peak, sm := int64(9<<30), 12.5
	return gpu.Inventory{
		System: gpu.System{Driver: "580.159.04", CUDA: 13000},
		GPUs: []gpu.State{{
			Device: gpu.Device{UUID: "GPU-1", Name: "NVIDIA H200", Memory: 141 << 30}, Mode: gpu.MIG, Tier: gpu.Hardware, Condition: gpu.Ready,
			Reading: &gpu.Reading{Utilisation: -1, MemoryUsed: 3 << 30, Power: 70500, Temperature: 31},
			Offers:  []gpu.Offer{{Name: "1g.18gb", Free: 5, Most: 7, Tier: gpu.Hardware}},
			Slices: []gpu.SliceState{
				{Slice: slice(0), Holder: "s-alice", Lent: "j-alice", Since: time.Unix(1, 0), Use: gpu.Use{Source: gpu.SourceGPM, SM: &sm, Peak: &peak, Hint: "1g.18gb would do for alice"}},
				{Slice: slice(1)},
			},
		}},
	}
}

func slice(at int) gpu.Slice {
	return gpu.Slice{GPU: "GPU-1", Model: "NVIDIA H200", Mode: gpu.MIG, Name: "1g.18gb", Placement: gpu.Placement{Start: at, Size: 1}, Memory: 16 << 30, Tier: gpu.Hardware}
}

func (h *harness) gpusAs(t *testing.T, token, query string) (int, string) {
	t.Helper()
	req, _ := http.NewRequest(http.MethodGet, h.front.URL+hubapi.Base+"/gpus"+query, nil)
	req.Header.Set("Authorization", "token "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func TestGPUs(t *testing.T) {
	h := start(t, newFake(lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice")), func(c *Config) { c.GPUs = heldByAlice })
	for token, knows := range map[string]bool{"alice-token": true, "root-token": true, "bob-token": false} {
		status, text := h.gpusAs(t, token, "")
		if status != http.StatusOK || strings.Contains(text, "alice") != knows {
			t.Errorf("%s: %d %s", token, status, text)
		}
		var got hubapi.GPUs
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		g := got.GPUs[0]
		if got.CUDA != "13.0" || got.Offers[0].Free != 5 || g.Utilisation != nil || *g.Power != 70.5 || g.Slices[0].State != "lent" || g.Slices[1].State != "ready" ||
			*g.Slices[0].Use.SM != 12.5 || g.Slices[0].Place != "0-0" {
			t.Errorf("%s sees %+v", token, got)
		}
	}
	if status, text := h.gpusAs(t, "bob-token", "?format=classad"); status != http.StatusNotImplemented || !strings.Contains(text, "gpu.driver") {
		t.Errorf("without a publisher: %d %s", status, text)
	}
}

func TestNoGPUs(t *testing.T) {
	h := start(t, newFake(), nil)
	if status, text := h.gpusAs(t, "bob-token", ""); status != http.StatusOK || !strings.Contains(text, `"gpus":[]`) {
		t.Errorf("%d %s", status, text)
	}
}

func TestJobsGPU(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.Jobs.GPUs = []string{"1g.18gb"} })
	for body, want := range map[string]int{
		`{"environment":"sha256:aabbcc","argv":["true"],"gpu":"1g.18gb","preemptible":true}`: http.StatusAccepted,
		`{"environment":"sha256:aabbcc","argv":["true"],"gpu":"whole"}`:                      http.StatusUnprocessableEntity,
		`{"environment":"sha256:aabbcc","argv":["true"],"gpu":7}`:                            http.StatusUnprocessableEntity,
	} {
		req, _ := http.NewRequest(http.MethodPost, h.front.URL+hubapi.Base+"/jobs", strings.NewReader(body))
		req.Header.Set("Authorization", "token bob-token")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d", body, resp.StatusCode)
		}
	}
	if got := h.engine.jobs; len(got) != 1 || got[0].GPU != (gpu.Request{Mode: gpu.MIG, Profile: "1g.18gb"}) || !got[0].Preemptible {
		t.Errorf("the engine was asked for %+v", got)
	}
}

func TestHeldSlice(t *testing.T) {
	w := lab("s-alice", "alice", "/user/alice/")
	s := slice(0)
	w.Slice, w.Spec.GPU = &s, gpu.Request{Mode: gpu.MIG, Profile: "1g.18gb"}
	h := start(t, newFake(w), func(c *Config) {
		c.GPUSeries = func(holder string) []hubapi.GPUPoint { return make([]hubapi.GPUPoint, len(holder)) }
		c.GPUUse = func(holder string) gpu.Use { return gpu.Use{Unknown: "not yet measured of " + holder} }
	})
	got := h.convert.Session(w)
	if got.GPU != "1g.18gb" || got.Slice == nil || got.Slice.Isolation != "hardware" || got.Slice.Use.Unmeasured != "not yet measured of s-alice" {
		t.Errorf("%+v", got.Slice)
	}
	req, _ := http.NewRequest("GET", h.front.URL+"/api/v1/sessions/s-alice/gpu", nil)
	req.Header.Set("Authorization", "token alice-token")
	var history hubapi.GPUSeries
	if err := into(req, &history); err != nil || len(history.Points) != len("s-alice") {
		t.Errorf("its history: %v, %v", history.Points, err)
	}
	if none := h.convert.Session(spawner.Workload{}); none.GPU != "none" || none.Slice != nil {
		t.Errorf("%+v", none)
	}
}

func TestGPUsPage(t *testing.T) {
	h := startPages(t, newFake(lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice")), func(c *Config) { c.GPUs = heldByAlice })
	for user, knows := range map[string]bool{"alice": true, "bob": false} {
		page := h.visitor(t, user).get(prefix + "gpus")
		text := page.Body.String()
		if page.Code != http.StatusOK || !strings.Contains(text, "NVIDIA H200") || strings.Contains(text, "s-alice") != knows {
			t.Errorf("%s: %d %s", user, page.Code, text)
		}
	}
}
