package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"slipway/internal/testenv"
)

// answers waits until the app of a user's session answers, and gives its process number.
func (s *farSite) answers(user string) any {
	s.t.Helper()
	var pid any
	s.eventually("the session of "+user+" answers", func() bool {
		r := s.call("", http.MethodGet, "/user/"+user+"/api", nil)
		if r.status != http.StatusOK {
			return false
		}
		pid = r.object(s.t)["pid"]
		return true
	})
	return pid
}

// show returns what a user sees of a session or job.
func (s *farSite) show(user, kind, id string) map[string]any {
	s.t.Helper()
	return s.call(user, http.MethodGet, "/api/v1/"+kind+"/"+id, nil).object(s.t)
}

// stop stops a session and waits for its end.
func (s *farSite) stop(id string) {
	s.t.Helper()
	if r := s.call("hub", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil); r.status != http.StatusOK {
		s.t.Fatalf("stop: %d %s", r.status, r.body)
	}
	s.eventually(id+" has stopped", func() bool { return s.phase("root", "sessions", id) == "stopped" })
}

// queued returns the jobs that the pool has, held and ended ones too.
func (s *farSite) queued() []string {
	s.t.Helper()
	return strings.Fields(s.pool.Admin(s.t, "condor_q", "-allusers", "-af", "ClusterId"))
}

// changeJob does something to a job by the API.
func (s *farSite) changeJob(id, verb string) {
	s.t.Helper()
	if r := s.call("alice", http.MethodPost, "/api/v1/jobs/"+id+"/"+verb, nil); r.status >= 300 {
		s.t.Fatalf("%s: %d %s", verb, r.status, r.body)
	}
}

// jobsOf returns the jobs of HTCondor's that its queue has of a workload. Several that were submitted at once share a
// cluster.
func (s *farSite) jobsOf(id string) []string {
	s.t.Helper()
	return strings.Fields(s.pool.Admin(s.t, "condor_q", "-allusers", "-constraint", fmt.Sprintf("SlipwayId == %q", id), "-format", "%d.", "ClusterId", "-format", "%d\n", "ProcId"))
}

// submissions counts the jobs that the pool ever had of a workload.
func (s *farSite) submissions(id string) int {
	s.t.Helper()
	past := s.pool.Admin(s.t, "condor_history", "-constraint", fmt.Sprintf("SlipwayId == %q", id), "-af", "ClusterId")
	return len(s.jobsOf(id)) + len(strings.Fields(past))
}

// toldSince returns the events of a session or a job after one of them, up to the next that is final.
func (s *site) toldSince(kind, id, after string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testenv.Hang)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/api/v1/"+kind+"/"+id+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token-of-root")
	r.Header.Set("Last-Event-ID", after)
	resp, err := cmp.Or(s.client, http.DefaultClient).Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Error(err)
	}
	return string(text)
}

// lastEvent returns the name of the last event of a stream.
func lastEvent(events string) string {
	_, id, _ := strings.Cut(events[strings.LastIndex(events, "\nid: ")+1:], "id: ")
	id, _, _ = strings.Cut(id, "\n")
	return id
}

// node returns the worker on which a session or a job runs.
func (s *farSite) node(kind, id string) string {
	s.t.Helper()
	name, _, _ := strings.Cut(fmt.Sprint(s.show("root", kind, id)["host"]), ".")
	return name
}
