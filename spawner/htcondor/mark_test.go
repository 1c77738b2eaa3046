package htcondor

import (
	"strings"
	"testing"
	"time"

	"slipway/internal/clock"
	"slipway/spawner"
)

// TestForged: a job in the likeness of the service's, which somebody else has submitted with all that he could read of
// one, is not the service's: it is not listed, not taken for the workload's, and nothing is done to it.
func TestForged(t *testing.T) {
	s := newSchedd()
	b, launch := played(t, s)
	l, other := launch(1), launch(2)
	must(t, b.Start(t.Context(), l))
	must(t, b.Start(t.Context(), other))
	mine := s.jobs["1.0"]
	_, mark, _ := strings.Cut(mine, `"SlipwayMark":`)
	s.mu.Lock()
	for name, text := range map[string]string{
		"7.0": strings.Replace(mine, `"Owner":"alice"`, `"Owner":"mallory"`, 1),
		"7.1": strings.Replace(mine, `,"SlipwayMark":`+mark, "", 1),
		"7.2": strings.Replace(strings.Replace(mine, `"l-1"`, `"l-1.1"`, 1), `"JobStatus":1`, `"JobStatus":2`, 1),
		"7.3": strings.Replace(mine, `"SlipwayId":"j-1"`, `"SlipwayId":"j-3"`, 1),
	} {
		s.order = append(s.order, name)
		s.jobs[name] = strings.NewReplacer(`"ClusterId":1,"ProcId":0`, `"ClusterId":7,"ProcId":`+name[2:]).Replace(text)
	}
	delete(s.jobs, "2.0") // and of the other, all that is there
	s.order = append(s.order, "8.0")
	s.jobs["8.0"] = strings.NewReplacer(`"alice"`, `"mallory"`, `"j-1"`, `"j-2"`, `"l-1"`, `"l-2"`, `"JobStatus":1`, `"JobStatus":2`).Replace(mine)
	s.mu.Unlock()
	all, err := b.List(t.Context())
	if err != nil || len(all) != 2 || all[l.ID] != spawner.Queued {
		t.Errorf("List() = %v, %v", all, err)
	}
	clock.Sleep(t.Context(), 2*time.Millisecond)
	if o, err := b.Observe(t.Context(), other.ID); err != nil || o.Existence != spawner.Queued || !strings.Contains(o.Detail, "does not show it") {
		t.Errorf("another's job is taken for the workload's: %+v, %v", o, err)
	}
	must(t, b.Stop(t.Context(), l.ID, 0))
	must(t, b.Remove(t.Context(), l.ID))
	if got := strings.Join(s.names(), " "); got != "7.0 7.1 7.2 7.3 8.0" {
		t.Errorf("left in the queue: %s", got)
	}
}
