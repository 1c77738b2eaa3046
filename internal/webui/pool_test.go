package webui

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/spawner"
)

// far is a session or job of a pool.
func far(id spawner.ID, phase spawner.Phase, host string) spawner.Workload {
	w := session(phase)
	w.ID, w.Backend, w.Remote, w.Host, w.Name = id, "htcondor", true, host, "train"
	if id.OfJob() {
		w.Kind = spawner.Job
	}
	return w
}

func TestPlaceIsShown(t *testing.T) {
	held, point := far("j-1", spawner.Pending, ""), far("j-1", spawner.Running, "wn042")
	held.Held, point.Scan, point.Point = true, "scan-1", 3
	for name, tc := range map[string]struct {
		item Item
		want []string
	}{
		"queued there": {Item{Workload: far("s-1", spawner.Starting, ""), Detail: "Queued at htcondor: no slot is free"},
			[]string{`<span class="state waiting">waiting</span>, Queued at htcondor: no slot is free`, "<dt>Runs in</dt><dd>the HTCondor pool</dd>"}},
		"runs there":     {Item{Workload: far("s-1", spawner.Running, "<wn042>")}, []string{"<dt>Runs on</dt><dd>&lt;wn042&gt;, in the HTCondor pool</dd>"}},
		"held":           {Item{Workload: held, Detail: "its owner has it wait"}, []string{`<span class="state held">held</span>, its owner has it wait`}},
		"a scan's point": {Item{Workload: point}, []string{"<h1>Job train, point 3</h1>"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			if err := Single(w, someVisit(), catalogue(), Details{Item: tc.item}); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("no %s in\n%s", want, w.Body)
				}
			}
		})
	}
	w := httptest.NewRecorder()
	if err := Single(w, someVisit(), catalogue(), Details{Item: Item{Workload: session(spawner.Running)}}); err != nil || strings.Contains(w.Body.String(), "<dt>Runs") {
		t.Errorf("%v: a session here says where it runs: %s", err, w.Body)
	}
}

// TestPageDoesNotContradictItself has what is lost not be called kept, and steps that are not known be told of.
func TestPageDoesNotContradictItself(t *testing.T) {
	lost, begun := far("s-1", spawner.Stopped, "wn042"), []spawner.Event{{Seq: 1, Message: "Starting"}}
	lost.Outcome = &spawner.Outcome{Reason: "stopped by its owner; what was changed in it since it started has not come back"}
	for name, tc := range map[string]struct {
		d            Details
		want, unwant string
	}{
		"changes lost":   {Details{Item: Item{Workload: lost}}, "Nothing is kept", "comes back when you start"},
		"changes kept":   {Details{Item: Item{Workload: session(spawner.Stopped)}}, "comes back when you start", "Nothing is kept"},
		"steps lost":     {Details{Item: Item{Workload: session(spawner.Running)}, Steps: []spawner.Event{{Seq: 9, Percent: 100, Message: "Ready"}}}, "Older steps are not kept", "<progress"},
		"all steps kept": {Details{Item: Item{Workload: session(spawner.Running)}, Steps: begun}, "Starting", "Older steps are not kept"},
	} {
		w := httptest.NewRecorder()
		if err := Single(w, someVisit(), catalogue(), tc.d); err != nil || !strings.Contains(w.Body.String(), tc.want) || strings.Contains(w.Body.String(), tc.unwant) {
			t.Errorf("%s: %v: %s", name, err, w.Body)
		}
	}
}

func TestFormNamesThePool(t *testing.T) {
	c := catalogue()
	c.Profiles[0].Backend, c.HomesApart = "htcondor", map[string]bool{"htcondor": true}
	none := spawner.Room{Most: -1, Free: -1, Estimate: -1}
	var page strings.Builder
	if err := SpawnForm(&page, Form{Catalogue: c, Rooms: map[string]spawner.Room{c.Profiles[0].Name: none}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Runs in the HTCondor pool.", "starts when a slot is free for it", "Your home is not there.", "only on a worker of a pool"} {
		if strings.Count(page.String(), want) != 1 {
			t.Errorf("%q is there %d times", want, strings.Count(page.String(), want))
		}
	}
	full := spawner.Room{Most: -1, Free: -1, Lacks: "you have 5 of at most 5 there", Waiting: 2, Estimate: -1}
	if got := RoomOf(c, c.Profiles[0], full); !strings.Contains(got, "you have 5") {
		t.Error(got)
	}
}

func TestEvictionIsTold(t *testing.T) {
	lost, kept, job := far("s-1", spawner.Running, "wn7"), far("s-1", spawner.Running, "wn7"), far("j-1", spawner.Running, "wn7")
	lost.Evictions, kept.Evictions, job.Evictions = 1, 2, 1
	kept.Kept, kept.From = "sha256:abc", "sha256:abc"
	unkept := far("s-1", spawner.Stopped, "wn7")
	unkept.Unkept, unkept.Outcome = "the quota is full", &spawner.Outcome{Expired: true, Reason: "idle"}
	for want, w := range map[string]spawner.Workload{
		"Evicted once What ran in it is lost, and what had been changed, but for":     lost,
		"Evicted 2 times What ran in it is lost. It began anew with what it had kept": kept,
		"Evicted once It began anew each time":                                        job,
		"Its slot was given back to the pool. Start it again to resume":               unkept,
		"could not be kept so far: the quota is full. Nothing is lost yet":            unkept,
	} {
		page := httptest.NewRecorder()
		if err := Single(page, someVisit(), catalogue(), Details{Item: Item{Workload: w}}); err != nil {
			t.Fatal(err)
		}
		if got := text(parse(t, page.Body.String())); !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

func TestPoolPage(t *testing.T) {
	seen := hubapi.PoolGPUs{Machines: 12, Taken: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC), Own: []hubapi.PoolOwn{{ID: "GPU-1", Ledger: "held", Pool: "free", Remark: "both"}},
		Kinds: []hubapi.PoolGPU{{Site: "<T2>", Model: "NVIDIA H200", Sharing: "mig", Capability: "9.0", Memory: 4 << 30, Runtimes: []string{"11.8", "12.8"}, Used: 5, Hosts: []string{"a", "b", "c", "d"}}}}
	for name, tc := range map[string]struct {
		view PoolView
		want []string
	}{
		"answers":   {PoolView{PoolGPUs: seen, Known: true}, []string{"NVIDIA H200, MIG instances <T2> none 5 9.0 4 GiB 11.8 to 12.8 4 a, b, c, ...", "12 machines; the pool was asked at 21 November", "GPU-1 held free both"}},
		"mute now":  {PoolView{PoolGPUs: seen, Known: true, Problem: "It is away."}, []string{"It is away.", "What follows is of 21 November", "NVIDIA H200"}},
		"was never": {PoolView{Problem: "It is away."}, []string{"Nothing is known of its GPUs yet."}},
		"none":      {PoolView{Known: true}, []string{"None of the pool's 0 machines has a GPU."}},
	} {
		w := httptest.NewRecorder()
		if err := PoolPage(w, someVisit(), tc.view); err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			if got := text(parse(t, w.Body.String())); !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %s", name, want, got)
			}
		}
	}
}
