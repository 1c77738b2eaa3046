package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway/hubapi/server/hubs"
	"slipway/internal/gpu"
	"slipway/spawner"
)

// crowded is an inventory in which every remark names somebody: alice, whose job has borrowed from bob and who has said
// of a place what she likes.
func crowded() gpu.Inventory {
	until := time.Unix(1<<31, 0)
	const said = `process 4711 (evilname) of s-alice; <script>alert("evilname")</script>`
	whole := gpu.Slice{GPU: "GPU-2", Model: "NVIDIA H200", Mode: gpu.Whole, Name: "whole", Memory: 141 << 30, Tier: gpu.Hardware}
	return gpu.Inventory{GPUs: []gpu.State{
		{
			Device: gpu.Device{UUID: "GPU-1", Name: "NVIDIA H200"}, Mode: gpu.MIG, Tier: gpu.Hardware, Condition: gpu.Ready, Why: "also used by " + said,
			Slices: []gpu.SliceState{
				{Slice: slice(0), Holder: "s-bob", Lent: "j-alice", Since: time.Unix(1, 0)},
				{Slice: slice(1), Why: said},
				{Slice: slice(2), Foreign: true, Why: "used by " + said},
				{Slice: slice(3), Quarantined: &until, Why: "self-test: " + said},
				{Slice: slice(4), Holder: "s-alice", Since: time.Unix(1, 0), Use: gpu.Use{Hint: "s-alice needs less"}},
			},
		},
		{Device: gpu.Device{Index: 1, UUID: "GPU-2", Name: "NVIDIA H200"}, Mode: gpu.Whole, Condition: gpu.Occupied, Why: "used by " + said},
		{
			Device: gpu.Device{Index: 2, UUID: "GPU-2", Name: "NVIDIA H200"}, Mode: gpu.Whole, Condition: gpu.Drained, Why: "quarantined until then: self-test: " + said,
			Slices: []gpu.SliceState{{Slice: whole, Quarantined: &until, Why: "self-test: " + said}},
		},
	}}
}

// TestStrangersLearnNothing: neither the API nor the pages tell a user of others' sessions, jobs, programs or words.
func TestStrangersLearnNothing(t *testing.T) {
	world := newFake(lab("s-alice", "alice", "/user/alice/"), job("j-alice", "alice"), lab("s-bob", "bob", "/user/bob/"))
	h := start(t, world, func(c *Config) { c.GPUs = crowded })
	for _, door := range []string{"", "?format=json"} {
		_, text := h.gpusAs(t, "bob-token", door)
		for _, secret := range []string{"alice", "4711", "evilname"} {
			if strings.Contains(text, secret) {
				t.Errorf("the API tells bob of %q: %s", secret, text)
			}
		}
	}
	if _, text := h.gpusAs(t, "bob-token", ""); !strings.Contains(text, `"state":"lent"`) || !strings.Contains(text, "s-bob") {
		t.Errorf("bob does not see that his slice is lent: %s", text)
	}
	if _, text := h.gpusAs(t, "root-token", ""); !strings.Contains(text, "4711") || !strings.Contains(text, `"borrower":"j-alice"`) {
		t.Errorf("the administrator reads no reasons: %s", text)
	}
	p := startPages(t, world, func(c *Config) { c.GPUs = crowded })
	for _, page := range []string{"gpus", ""} {
		got := p.visitor(t, "bob").get(prefix + page)
		for _, secret := range []string{"alice", "4711", "evilname"} {
			if got.Code != http.StatusOK || strings.Contains(got.Body.String(), secret) {
				t.Errorf("page %q, %d, tells bob of %q", page, got.Code, secret)
			}
		}
	}
	if got := p.visitor(t, "alice").get(prefix + "gpus").Body.String(); strings.Contains(got, "s-bob") || strings.Contains(got, "<script>alert") {
		t.Error("alice is told of bob's session, or her words are a program of the page")
	}
}

// TestAnAdministratorsSessionIsNoAdministrator: what runs in her session may be anybody's program.
func TestAnAdministratorsSessionIsNoAdministrator(t *testing.T) {
	h := start(t, newFake(), func(c *Config) { c.GPUs = crowded })
	for _, c := range []spawner.Caller{{User: "root", Admin: true, Workload: "s-root"}, {User: "bob"}, {Spawner: true}} {
		for _, g := range h.API.GPUs.InventoryFor(c).GPUs {
			if strings.Contains(g.Why, "4711") {
				t.Errorf("%+v reads %q", c, g.Why)
			}
		}
	}
}

// TestAPageAsksForTheGPUsOnce however much it lists: an inventory is not cheap.
func TestAPageAsksForTheGPUsOnce(t *testing.T) {
	var all []spawner.Workload
	for i := range 50 {
		w := lab(spawner.ID(fmt.Sprint("s-", i)), "bob", fmt.Sprintf("/user/bob/%d/", i))
		held := slice(i)
		w.Slice = &held
		all = append(all, w)
	}
	asked := 0
	h := startPages(t, newFake(all...), func(c *Config) { c.GPUs = func() gpu.Inventory { asked++; return heldByAlice() } })
	v := h.visitor(t, "bob")
	asked = 0
	if got := v.get(prefix); got.Code != http.StatusOK || asked > 1 {
		t.Errorf("%d: the inventory was made %d times", got.Code, asked)
	}
}

// TestAHubsWordsChooseNoGPU: what a Hub gives its servers of GPUs' variables does not reach the app, nor the test of
// its slice.
func TestAHubsWordsChooseNoGPU(t *testing.T) {
	got := hubs.Hub{}.SessionEnv(map[string]string{
		"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "0", "SLIPWAY_GPU_EXPECT": `{"uuids":["GPU-of-bob"]}`, "CUDA_MPS_PIPE_DIRECTORY": "/tmp", "JUPYTERHUB_USER": "alice",
	})
	if len(got) != 1 || got["JUPYTERHUB_USER"] != "alice" {
		t.Errorf("the app is given %v", slices.Sorted(maps.Keys(got)))
	}
}
