package e2e

import (
	"fmt"
	"net/http"
	"strings"
)

// aSession changes a session, freezes it, stops it and starts it again.
func (s *farSite) aSession() {
	id := s.session("alice", "one")
	if host := s.node("sessions", id); host != "node1" {
		s.t.Errorf("it runs on %q", host)
	}
	if who := s.in("alice", "id -u; whoami; hostname"); !strings.HasPrefix(who, "20000\nalice\nnode") {
		s.t.Errorf("the session runs as\n%s", who)
	}
	s.in("alice", "echo 'print(\"from the change\")' > /opt/env/bin/mine.py && rm -r /opt/env/share/man; echo draft > ~/thesis; true")
	if listed := s.in("alice", "slipway sessions --json"); !strings.Contains(listed, id) {
		s.t.Errorf("inside, without a token: %s", listed)
	}
	frozen, failure := s.freeze("alice", id)
	if failure != "" {
		s.t.Fatal("freeze: ", failure)
	}
	s.found.digest = frozen["digest"].(string)
	job := s.ended("alice", s.submit("alice", s.found.digest, "python3 /opt/env/bin/mine.py; hostname", map[string]any{"backend": "htcondor"}))
	if log := s.log("alice", job["id"].(string)); !strings.HasPrefix(log, "from the change\nnode") {
		s.t.Errorf("a job in what was frozen says %q: %v", log, job)
	}
	s.stop(id)
	if envs := s.list("alice", "environments"); len(envs) != 1 {
		s.t.Errorf("environments: %v", envs)
	}
	if second := s.session("alice", "two"); second != id {
		s.t.Errorf("started again as %s, want %s", second, id)
	}
	if got := s.in("alice", "cat ~/thesis; touch ~/more"); got != "draft" {
		s.t.Errorf("of the home, which no worker has, came back %q", got)
	}
	if got := s.in("alice", "python3 /opt/env/bin/mine.py"); got != "from the change" {
		s.t.Errorf("after stop and start: %q", got)
	}
	if gone := s.call("hub", http.MethodDelete, "/api/v1/sessions/"+id, nil); gone.status >= 300 {
		s.t.Errorf("discard: %d %s", gone.status, gone.body)
	}
}

// administrator does to a session what an administrator of a pool may: has its worker give up its jobs, holds it, and
// removes it. Its user is told each time, and it goes on where it can.
func (s *farSite) administrator() {
	id := s.session("mona", "one")
	told := lastEvent(s.toldSince("sessions", id, "0"))
	node := s.node("sessions", id)
	k := s.kernel("mona")
	s.pool.Admin(s.t, "condor_vacate", node+".slipway.test")
	s.eventually("it is submitted anew", func() bool { return s.submissions(id) == 2 })
	s.running(id)
	if events := s.toldSince("sessions", id, told); !strings.Contains(events, "evicted from "+node) || !strings.Contains(events, "what ran in it is lost") {
		s.t.Errorf("of the eviction is told: %s", events)
	}
	s.in("mona", "echo here")
	k.beginsAnew()
	for _, order := range []struct{ command, reason, told, next string }{
		{"condor_hold", "the site is being repaired", "an administrator holds it: the site is being repaired", "two"},
		{"condor_rm", "it is too loud", "it was removed from HTCondor's queue: it is too loud", ""},
	} {
		s.pool.Admin(s.t, order.command, "-reason", order.reason, s.jobsOf(id)[0])
		outcome := s.fell(id)
		if reason := fmt.Sprint(outcome["reason"]); !strings.Contains(reason, order.told) || outcome["failed"] != true {
			s.t.Errorf("of %s is told: %v", order.command, outcome)
		}
		if left := s.jobsOf(id); len(left) > 0 {
			s.t.Errorf("after %s there is %v", order.command, left)
		}
		if order.next != "" {
			s.session("mona", order.next)
		}
	}
	if gone := s.call("hub", http.MethodDelete, "/api/v1/sessions/"+id, nil); gone.status >= 300 {
		s.t.Errorf("discard: %d %s", gone.status, gone.body)
	}
}
