package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/hubapi"
	"slipway/internal/testenv"
	"slipway/spawner/htcondor/condortest"
)

// BenchmarkFarSpawn starts a session on the worker of a real pool with nothing else to do, and beside it, in turns, a
// job of plain condor_submit that runs `sleep` in the same image, which the worker has. It prints what each took and of
// what that was made up.
func BenchmarkFarSpawn(b *testing.B) {
	s := newIdleSite(b)
	s.spawned(0) // the worker gets the image
	var sessions, jobs []spawn
	for b.Loop() {
		if len(jobs)%2 == 0 {
			sessions = append(sessions, s.spawned(len(jobs)+1))
		}
		jobs = append(jobs, s.submitted())
		if len(sessions) < len(jobs) {
			sessions = append(sessions, s.spawned(len(jobs)+1))
		}
	}
	above := func(up func(spawn) time.Duration) []time.Duration {
		all := make([]time.Duration, len(jobs))
		for i := range all {
			all[i] = up(sessions[i]) - sessions[i].pools() - (jobs[i].up - jobs[i].pools())
		}
		return all
	}
	fmt.Printf("\n%s\nabove condor_submit, without HTCondor's own part, pair by pair: **%s to the agent's link, %s to the app's answer**\n\n",
		table(sessions, jobs), spread(above(func(s spawn) time.Duration { return s.up })), spread(above(func(s spawn) time.Duration { return s.answers })))
}

// spawn says how long after its request a job had come how far.
type spawn struct {
	told      time.Duration // the service begins with the submission
	submitted time.Duration // HTCondor has it
	placed    time.Duration // a worker begins to fetch its files
	sent      time.Duration // the worker has them
	begun     time.Duration // it starts the job's program
	up        time.Duration // the first program in the image runs: of a session, its agent, and it is connected
	answers   time.Duration // of a session: its app does
}

// placing is to negotiate, to claim the slot and to start what belongs to a job on both sides.
func (s spawn) placing() time.Duration { return s.placed - s.submitted }

// pause is what HTCondor lets pass before it starts a job whose files are there: a second where they came at once.
func (s spawn) pause() time.Duration { return s.begun - s.sent }

// pools is HTCondor's own part.
func (s spawn) pools() time.Duration { return s.placing() + s.pause() }

// table shows medians of the parts.
func table(sessions, jobs []spawn) string {
	var b strings.Builder
	b.WriteString("| seconds: median (min to max) | Slipway's session | condor_submit |\n|---|---|---|\n")
	for _, row := range []struct {
		name    string
		of      func(spawn) time.Duration
		session bool // a job has nothing like it
	}{
		{"record, and the image's environment", func(s spawn) time.Duration { return s.told }, true},
		{"sandbox, condor_submit", func(s spawn) time.Duration { return s.submitted - s.told }, false},
		{"negotiation, claim, shadow and starter", spawn.placing, false},
		{"files to the worker", func(s spawn) time.Duration { return s.sent - s.placed }, false},
		{"HTCondor's pause before it starts the job", spawn.pause, false},
		{"worker, Apptainer, agent, its link; of a job: Apptainer", func(s spawn) time.Duration { return s.up - s.begun }, false},
		{"**to there**", func(s spawn) time.Duration { return s.up }, false},
		{"the app starts and answers", func(s spawn) time.Duration { return s.answers - s.up }, true},
		{"**to the answer**", func(s spawn) time.Duration { return s.answers }, true},
	} {
		job := "-"
		if !row.session {
			job = spread(each(jobs, row.of))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.name, spread(each(sessions, row.of)), job)
	}
	return b.String()
}

func each(all []spawn, of func(spawn) time.Duration) []time.Duration {
	var out []time.Duration
	for _, s := range all {
		out = append(out, of(s))
	}
	return out
}

func spread(all []time.Duration) string {
	slices.Sort(all)
	n := len(all)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", (all[(n-1)/2]+all[n/2]).Seconds()/2, all[0].Seconds(), all[n-1].Seconds())
}

// newIdleSite is a farSite whose pool has one worker and tells its times to the millisecond.
func newIdleSite(b *testing.B) *farSite {
	testenv.Need(b, testenv.Root, testenv.Docker, testenv.Notebook, testenv.HTCondor)
	program, err := buildOnce()
	if err != nil {
		b.Fatal(err)
	}
	const fine = "DEFAULT_USERLOG_FORMAT_OPTIONS = SUB_SECOND, ISO_DATE, UTC\n"
	pool := condortest.Start(b, condortest.Options{CPUs: -1, Config: fine, Workers: []condortest.Worker{{Name: "node1", Config: fine}}})
	pool.AddUser(b, "alice", 20000)
	s := &farSite{site: &site{t: b, dir: pool.TempDir(b), program: program}, pool: pool}
	if err := os.Symlink(pool.Bin, filepath.Join(s.dir, "bin")); err != nil {
		b.Fatal(err)
	}
	s.hub = httptest.NewServer(http.HandlerFunc(fakeHub))
	b.Cleanup(s.hub.Close)
	s.configure()
	b.Cleanup(s.kill)
	s.haveBases(1)
	s.serve()
	b.Cleanup(s.clear)
	return s
}

// idle waits until the pool has nothing to do and tells so.
func (s *farSite) idle() {
	s.t.Helper()
	s.eventually("the pool is idle", func() bool {
		return len(s.queued()) == 0 && s.pool.Admin(s.t, "condor_status", "-constraint", `State == "Claimed"`, "-af", "Name") == ""
	})
}

// spawned starts a session, and discards it.
func (s *farSite) spawned(launch int) spawn {
	s.t.Helper()
	s.idle()
	began := time.Now()
	r := s.ask("alice", strconv.Itoa(launch))
	if r.status != http.StatusAccepted {
		s.t.Fatalf("start: %d %s", r.status, r.body)
	}
	id := r.object(s.t)["id"].(string)
	s.answers("alice")
	p := spawn{answers: time.Since(began)}
	for _, line := range strings.Split(string(s.call("root", http.MethodGet, "/api/v1/sessions/"+id+"/events", nil).body), "\n") {
		var e hubapi.Event
		if data, ok := strings.CutPrefix(line, "data: "); !ok || json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		switch e.Message {
		case "Submitting it to HTCondor":
			p.told = e.Time.Sub(began)
		case "Starting JupyterLab":
			p.up = e.Time.Sub(began)
		}
	}
	s.milestones(filepath.Join(s.dir, "data", "htcondor", id, "box", "events.log"), began, &p)
	s.stop(id)
	s.call("hub", http.MethodDelete, "/api/v1/sessions/"+id, nil)
	return p
}

// milestones reads what HTCondor has noted of a job.
func (s *farSite) milestones(log string, began time.Time, p *spawn) {
	s.t.Helper()
	f, err := os.Open(log)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || len(fields[0]) != 3 {
			continue
		}
		at, err := time.Parse("2006-01-02 15:04:05.000", fields[2]+" "+strings.TrimSuffix(fields[3], "Z"))
		switch what := strings.Join(fields[4:], " "); {
		case err != nil:
		case strings.HasPrefix(what, "Job submitted"):
			p.submitted = at.Sub(began)
		case what == "Started transferring input files":
			p.placed = at.Sub(began)
		case what == "Finished transferring input files":
			p.sent = at.Sub(began)
		case strings.HasPrefix(what, "Job executing"):
			p.begun = at.Sub(began)
		}
	}
	if p.submitted == 0 || p.placed == 0 || p.sent == 0 || p.begun == 0 {
		text, _ := os.ReadFile(log)
		s.t.Fatalf("HTCondor has noted\n%s", text)
	}
}

const sleeper = `#!/bin/sh
exec apptainer --quiet exec /var/tmp/slipway-images-*/*.sif sh -c 'date +%s%N; exec sleep 1'
`

const sleeping = `
universe = vanilla
executable = sleeper
transfer_input_files = sleeper
should_transfer_files = YES
request_cpus = 1
request_memory = 640
output = out
error = err
log = log
queue
`

// submitted submits a job without Slipway, and waits for its end.
func (s *farSite) submitted() spawn {
	s.t.Helper()
	dir := s.pool.TempDir(s.t)
	for name, text := range map[string]string{"sleeper": sleeper, "job": sleeping} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		s.t.Fatal(err)
	}
	submit := s.pool.As(s.t, "alice", dir, "condor_submit", "-terse", "job")
	s.idle()
	began := time.Now()
	if out, err := submit.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	var p spawn
	s.eventually("the job has ended", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "out"))
		ns, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		p.up = time.Unix(0, ns).Sub(began)
		return err == nil
	})
	s.milestones(filepath.Join(dir, "log"), began, &p)
	return p
}
