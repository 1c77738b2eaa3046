package webui

import (
	"net/http/httptest"
	"strings"
	"testing"

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

func TestFormNamesThePool(t *testing.T) {
	c := catalogue()
	c.Profiles[0].Backend = "htcondor"
	none := spawner.Room{Most: -1, Free: -1, Estimate: -1}
	var page strings.Builder
	if err := SpawnForm(&page, Form{Catalogue: c, Rooms: map[string]spawner.Room{c.Profiles[0].Name: none}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Runs in the HTCondor pool.", "starts when the HTCondor pool has a slot for it"} {
		if strings.Count(page.String(), want) != 1 {
			t.Errorf("%q is there %d times", want, strings.Count(page.String(), want))
		}
	}
	full := spawner.Room{Most: -1, Free: -1, Lacks: "you have 5 of at most 5 there", Waiting: 2, Estimate: -1}
	if got := RoomOf(c.Profiles[0], full); !strings.Contains(got, "you have 5") {
		t.Error(got)
	}
}
