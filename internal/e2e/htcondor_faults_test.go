package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"slipway/internal/testenv"
	"slipway/spawner/htcondor/condortest"
)

// faults kills the service at several moments of a start, beside running sessions and while one comes to its end, and
// the queue beside all that goes on.
func (s *farSite) faults() {
	var id string
	asked := func() {
		s.t.Helper()
		again := s.ask("alice", "one")
		if is, _ := again.object(s.t)["id"].(string); again.status != http.StatusAccepted || id != "" && is != id {
			s.t.Fatalf("%d %s, was %s", again.status, again.body, id)
		} else {
			id = is
		}
	}
	s.killedIn("condor_submit", asked)
	for _, delay := range []time.Duration{0, 500 * time.Millisecond} {
		asked()
		<-time.After(delay)
		s.kill()
		s.serve()
	}
	asked()
	s.running(id)
	pid := s.answers("alice")
	if n := s.submissions(id); n != 1 {
		s.t.Errorf("it was submitted %d times", n)
	}
	k, counts := s.counting("alice")
	lab := s.channels(s.found.lab)
	was, err := lab.run("print(os.getpid(), kept)")
	if err != nil {
		s.t.Error(err)
	}
	s.kill()
	s.serve()
	if got := s.answers("alice"); got != pid {
		s.t.Errorf("beside a service that was killed the app was process %v and is %v", pid, got)
	}
	if _, err := lab.run("kept"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		s.t.Errorf("the connection to a kernel by a service that was killed: %v", err)
	}
	s.goesOn(s.found.lab, was, "print(os.getpid(), kept)")
	k.attach(s)
	k.counted(counts)
	k.loseAgent()
	s.keeps(id)
	s.withoutQueue(id)
}

// withoutQueue kills the daemon that has HTCondor's queue while a job is submitted and another canceled. Who submits a
// moment later is told if it is not there yet.
func (s *farSite) withoutQueue(session string) {
	pid, told, submitted := s.answers("alice"), lastEvent(s.toldSince("sessions", session, "0")), s.submissions(session)
	endless := s.job("exec sleep 600")
	s.runs(endless)
	fresh := s.job("echo once")
	s.pool.KillDaemon(s.t, condortest.Main, "condor_schedd")
	s.changeJob(endless, "cancel")
	if late := s.call("alice", http.MethodPost, "/api/v1/jobs", map[string]any{
		"name": "late", "environment": s.found.digest, "backend": "htcondor", "argv": []string{"true"},
	}); late.status != http.StatusAccepted && (late.status != http.StatusServiceUnavailable || !strings.Contains(string(late.body), "HTCondor's queue")) {
		s.t.Errorf("without a queue: %d %s", late.status, late.body)
	}
	s.answers("alice")
	if job := s.ended("alice", fresh); job["state"] != "done" || s.log("alice", fresh) != "once\n" {
		s.t.Errorf("what was submitted is %v, and says %q: %v", job["state"], s.log("alice", fresh), job["outcome"])
	}
	// It may have run before its queue was killed, which then had not written down its end: HTCondor evicts such a job.
	if n := s.submissions(fresh); n != 1 {
		if events := s.toldSince("jobs", fresh, "0"); n != 2 || !strings.Contains(events, "evicted") {
			s.t.Errorf("it was submitted %d times: %s", n, events)
		}
	}
	if job := s.ended("alice", endless); job["state"] != "canceled" {
		s.t.Errorf("what was canceled is %v: %v", job["state"], job["outcome"])
	}
	s.running(session)
	// HTCondor takes its jobs up again, or gives them up: then that is told.
	if got, n := s.answers("alice"), s.submissions(session)-submitted; got != pid || n != 0 {
		if events := s.toldSince("sessions", session, told); n != 1 || !strings.Contains(events, "evicted from node1") {
			s.t.Errorf("the app was process %v and is %v, submitted %d times more: %s", pid, got, n, events)
		}
	}
}

// keeps kills the service while a session packs what was changed in it, and starts that again.
func (s *farSite) keeps(id string) {
	s.in("alice", "echo mine > /opt/env/mine; head -c 50000000 /dev/urandom > /opt/env/much")
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.call("hub", http.MethodPost, "/api/v1/sessions/"+id+"/stop", nil)
	}()
	s.eventually("it is being stopped", func() bool { return s.phase("alice", "sessions", id) == "stopping" })
	<-time.After(300 * time.Millisecond)
	s.kill()
	<-answered
	s.serve()
	s.eventually(id+" has stopped", func() bool { return s.phase("alice", "sessions", id) == "stopped" })
	if left := s.jobsOf(id); len(left) > 0 {
		s.t.Errorf("of a stopped session there is %v", left)
	}
	if again := s.session("alice", "two"); again != id {
		s.t.Errorf("started again as %s, want %s", again, id)
	}
	if got := s.in("alice", "cat /opt/env/mine; wc -c </opt/env/much"); got != "mine\n50000000" {
		s.t.Errorf("of what was kept there is %q", got)
	}
}

// apart kills the worker of one session, which goes on elsewhere, once. A run that takes its time (see partition) also
// parts another's from all for longer than its job's lease: HTCondor needs minutes to notice.
func (s *farSite) apart() {
	one, lab, long := s.session("alice", "two"), s.found.lab.id, os.Getenv("SLIPWAY_E2E_PARTITION") != ""
	s.in("alice", "echo lost > /opt/env/lost")
	all := map[string]string{one: "node1"}
	if long {
		all[lab] = "node2"
	}
	told, submitted := map[string]string{}, map[string]int{}
	for id, node := range all {
		told[id], submitted[id] = lastEvent(s.toldSince("sessions", id, "0")), s.submissions(id)
		if is := s.node("sessions", id); is != node {
			s.t.Fatalf("%s runs on %s", id, is)
		}
	}
	s.pool.Configure(s.t, "node3", "10-open.conf", "START = True\n")
	s.pool.Kill(s.t, "node1")
	if long {
		s.pool.Cut(s.t, "node2")
	}
	for id := range all {
		testenv.Until(s.t, "it runs elsewhere", testenv.Hang+partition(s.t), func() bool {
			return s.phase("root", "sessions", id) == "running" && s.node("sessions", id) == "node3"
		})
	}
	s.pool.Heal(s.t, "node2")
	if got := s.in("alice", "ls /opt/env/lost || cat /opt/env/mine"); got != "mine" {
		s.t.Errorf("it went on with what was never kept: %s", got)
	}
	if page := s.call("lily", http.MethodGet, "/user/lily/api/kernels", nil); long && (page.status != http.StatusOK || strings.TrimSpace(string(page.body)) != "[]") {
		s.t.Errorf("the kernels of JupyterLab elsewhere: %d %s", page.status, page.body)
	}
	for id, node := range all {
		if events := s.toldSince("sessions", id, told[id]); !strings.Contains(events, "evicted from "+node) {
			s.t.Errorf("nobody is told why: %s", events)
		}
		if is, n := s.node("sessions", id), s.submissions(id)-submitted[id]; is != "node3" || n != 1 {
			s.t.Errorf("%s runs on %s, submitted %d times more", id, is, n)
		}
	}
	for _, id := range []string{one, lab} {
		s.call("hub", http.MethodDelete, "/api/v1/sessions/"+id, nil)
	}
	s.eventually("what was parted has ended", func() bool {
		return !strings.Contains(strings.Join(s.pool.Processes(s.t, "node2"), "\n"), "slipway ")
	})
	s.eventually("nothing of it is left in the pool", func() bool { return len(s.queued()) == 0 })
}
