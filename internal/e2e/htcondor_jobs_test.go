package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

func (s *farSite) log(user, job string) string {
	return string(s.call(user, http.MethodGet, "/api/v1/jobs/"+job+"/log", nil).body)
}

// job submits a script of alice's to the pool.
func (s *farSite) job(script string) string {
	s.t.Helper()
	return s.submit("alice", s.found.digest, script, map[string]any{"backend": "htcondor"})
}

// jobs submits a scan, and kills the service behind it: each point runs once.
func (s *farSite) jobs() {
	const points = 4
	var list []map[string]any
	for i := range points {
		list = append(list, map[string]any{"parameters": map[string]string{"K": fmt.Sprint(i * i)}})
	}
	r := s.call("alice", http.MethodPost, "/api/v1/jobs", map[string]any{
		"name": "scan", "environment": s.found.digest, "backend": "htcondor", "points": list, "request_id": "once",
		"argv": []string{"sh", "-c", `echo "$SLIPWAY_POINT $K"; echo "$K" > answer; test "$K" != 4`},
	})
	if r.status != http.StatusAccepted {
		s.t.Fatalf("submit: %d %s", r.status, r.body)
	}
	s.kill()
	s.serve()
	var submitted struct{ Jobs []struct{ ID string } }
	if err := json.Unmarshal(r.body, &submitted); err != nil || len(submitted.Jobs) != points {
		s.t.Fatalf("%d jobs, %v: %s", len(submitted.Jobs), err, r.body)
	}
	for i, point := range submitted.Jobs {
		job := s.ended("alice", point.ID)
		if want := map[bool]string{true: "failed", false: "done"}[i == 2]; job["state"] != want {
			s.t.Errorf("point %d is %v, want %s: %v", i, job["state"], want, job["outcome"])
		}
		if got, want := s.log("alice", point.ID), fmt.Sprintf("%d %d\n", i, i*i); got != want {
			s.t.Errorf("point %d says %q, want %q", i, got, want)
		}
		if got := s.call("alice", http.MethodGet, "/api/v1/jobs/"+point.ID+"/files/answer", nil); string(got.body) != fmt.Sprintf("%d\n", i*i) {
			s.t.Errorf("point %d left %d %q", i, got.status, got.body)
		}
		if n := s.submissions(point.ID); n != 1 {
			s.t.Errorf("point %d was submitted %d times", i, n)
		}
	}
	const never = "1000000000000"
	if refused := s.call("alice", http.MethodPost, "/api/v1/jobs", map[string]any{
		"name": "huge", "environment": s.found.digest, "backend": "htcondor", "argv": []string{"true"}, "memory": never,
	}); refused.status < 400 || refused.status >= 500 {
		s.t.Errorf("more memory than any worker has: %d %s", refused.status, refused.body)
	}
}

// orders gives running jobs to an administrator, who holds one, removes one and has the worker give one up, and lets
// their owner requeue one. Another is held and released while it waits.
func (s *farSite) orders() {
	var all [4]string
	for i := range all {
		all[i] = s.job("echo here; exec sleep 600")
	}
	held, removed, vacated, requeued := all[0], all[1], all[2], all[3]
	first := map[string][]string{}
	for _, id := range all {
		s.runs(id)
		first[id] = s.jobsOf(id)
	}
	s.pool.Admin(s.t, "condor_hold", "-reason", "the site is being repaired", first[held][0])
	s.pool.Admin(s.t, "condor_rm", "-reason", "it is too loud", first[removed][0])
	s.pool.Vacate(s.t, first[vacated][0])
	s.changeJob(requeued, "requeue")
	s.eventually("it is told why it waits", func() bool {
		return strings.Contains(fmt.Sprint(s.show("alice", "jobs", held)["waiting"]), "an administrator holds it: the site is being repaired")
	})
	s.pool.Admin(s.t, "condor_release", first[held][0])
	if job := s.ended("alice", removed); job["state"] != "failed" || !strings.Contains(fmt.Sprint(job["outcome"]), "it was removed from HTCondor's queue: it is too loud") {
		s.t.Errorf("a removed job is %v: %v", job["state"], job["outcome"])
	}
	for id, words := range map[string]string{held: "was evicted from node", vacated: "was evicted from node", requeued: "Its owner has it begin anew"} {
		s.eventually("another job of it runs", func() bool {
			now := s.jobsOf(id)
			return len(now) == 1 && !slices.Equal(now, first[id]) && s.phase("alice", "jobs", id) == "running"
		})
		s.changeJob(id, "cancel")
		if job := s.ended("alice", id); job["state"] != "canceled" {
			s.t.Errorf("a canceled job is %v: %v", job["state"], job["outcome"])
		}
		if events := s.toldSince("jobs", id, "0"); !strings.Contains(events, words) {
			s.t.Errorf("there is no %q in %s", words, events)
		}
		if log := s.log("alice", id); log != "here\n" {
			s.t.Errorf("it says %q", log)
		}
	}
	s.heldWhileItWaits()
	if left := s.queued(); len(left) != 1 { // the session of lily
		s.t.Errorf("in the queue are %v", left)
	}
}

// heldWhileItWaits holds a job that the pool has in its queue, with the service killed when it has just taken it back.
func (s *farSite) heldWhileItWaits() {
	s.pool.Admin(s.t, "condor_off", "-daemon", "negotiator")
	s.t.Cleanup(func() { s.pool.Admin(s.t, "condor_on", "-daemon", "negotiator") })
	id := s.job("echo once")
	s.eventually("it is in the queue", func() bool {
		return len(s.jobsOf(id)) == 1 && strings.Contains(fmt.Sprint(s.show("alice", "jobs", id)["waiting"]), "it waits for")
	})
	s.killedIn("condor_rm", func() { s.changeJob(id, "hold") })
	s.eventually("it waits here", func() bool { return s.phase("alice", "jobs", id) == "pending" })
	if job := s.show("alice", "jobs", id); job["held"] != true || len(s.jobsOf(id)) > 0 {
		s.t.Errorf("the pool has %v of a held job: %v", s.jobsOf(id), job)
	}
	s.changeJob(id, "release")
	s.pool.Admin(s.t, "condor_on", "-daemon", "negotiator")
	if job := s.ended("alice", id); job["state"] != "done" || s.log("alice", id) != "once\n" {
		s.t.Errorf("when it is released it is %v, and says %q: %v", job["state"], s.log("alice", id), job["outcome"])
	}
}

// runs waits until a job runs.
func (s *farSite) runs(id string) {
	s.t.Helper()
	s.eventually(id+" runs", func() bool { return s.phase("alice", "jobs", id) == "running" })
}
