package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"slipway/internal/testenv"
)

// farKernels are kernels whose profile runs in the pool. The second one's Python has no such module.
const farKernels = `
kernels:
  specs:
    - {name: far, display_name: "Python (HTCondor)", profile: far}
    - {name: bare, display_name: Bare, profile: far, argv: [python3, -m, ipykernel_of_nobody, -f, "{connection_file}"]}`

// farKernel is a kernel on a worker of the pool, and one client of it.
type farKernel struct {
	s                *farSite
	user, id, worker string
	work             string // the workload's id
	n                *openKernel
}

// kernel has the gateway start one, and opens a client.
func (s *farSite) kernel(user string) *farKernel {
	s.t.Helper()
	r := s.call(user, http.MethodPost, "/kernels/api/kernels", map[string]any{"name": "far"})
	if r.status != http.StatusCreated {
		s.t.Fatalf("a kernel: %d %s", r.status, r.body)
	}
	k := &farKernel{s: s, user: user, id: r.object(s.t)["id"].(string)}
	k.attach(s)
	k.says("print('up')", "up")
	for _, w := range s.list(user, "sessions") {
		if w["kind"] == "kernel" && w["name"] == "far" {
			k.work = w["id"].(string)
		}
	}
	k.worker = s.node("sessions", k.work)
	return k
}

// attach opens the client's websocket, in place of the one that it had. What follows reports to the test of s.
func (k *farKernel) attach(s *farSite) {
	s.t.Helper()
	k.s = s
	ctx, cancel := context.WithTimeout(s.t.Context(), testenv.Hang)
	defer cancel()
	address := "wss" + strings.TrimPrefix(s.url, "https") + "/kernels/api/kernels/" + k.id + "/channels?session_id=e2e"
	ws, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{
		HTTPClient: s.client, HTTPHeader: http.Header{"Authorization": {"token token-of-" + k.user}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	n := 0
	if k.n != nil {
		n = k.n.n
	}
	k.n = &openKernel{jupyter: &jupyter{T: s.t.(*testing.T)}, ws: ws, n: n}
}

// says runs a cell, and holds what it prints first to begin so.
func (k *farKernel) says(code, want string) {
	k.s.t.Helper()
	if said := k.n.prints(code); !strings.HasPrefix(said, want) {
		k.s.t.Errorf("%s says %q, want %q", code, said, want)
	}
}

func (k *farKernel) ask(method, verb string, want int) {
	k.s.t.Helper()
	if r := k.s.call(k.user, method, "/kernels/api/kernels/"+k.id+verb, nil); r.status != want {
		k.s.t.Errorf("%s %s: %d %s", method, verb, r.status, r.body)
	}
}

// hears reads what a cell prints up to a line, and gives all lines. What Slipway says under it is left out.
func (k *farKernel) hears(request, last string) (lines []string) {
	k.s.t.Helper()
	for !slices.Contains(lines, last) {
		var said struct{ Name, Text string }
		if err := json.Unmarshal([]byte(k.n.until("stream", request)), &said); err == nil && said.Name == "stdout" {
			lines = append(lines, strings.Fields(said.Text)...)
		}
	}
	return lines
}

// ends reads up to the word that the kernel is dead, and gives what was said before.
func (k *farKernel) ends() string {
	k.s.t.Helper()
	ctx, cancel := context.WithTimeout(k.s.t.Context(), testenv.Hang)
	defer cancel()
	for said := ""; ; {
		_, data, err := k.n.ws.Read(ctx)
		if websocket.CloseStatus(err) == websocket.StatusServiceRestart {
			k.attach(k.s)
			continue
		}
		if err != nil {
			k.s.t.Fatalf("%v, after %s", err, said)
		}
		if said += string(data) + "\n"; strings.Contains(said, `"execution_state":"dead"`) {
			return said
		}
	}
}

// count is a cell that prints numbers until it is interrupted, whoever listens.
const count = "import time\ni = 0\ntry:\n  while True:\n    print(i, flush=True); i += 1; time.sleep(.2)\nexcept KeyboardInterrupt:\n  print('all')"

// aKernel runs one on a worker: at home there, interrupted, restarted where it is, and gone when it is shut down.
func (s *farSite) aKernel() {
	s.withoutIPyKernel()
	k := s.kernel("alice")
	k.says("import os; print(os.getuid(), os.uname().nodename, os.path.expanduser('~'))", "20000 "+k.worker+".slipway.test /home/alice")
	busy := k.n.run("import time\nx = 1\nprint('busy', flush=True)\nwhile True: time.sleep(0.1)")
	k.n.until("stream", busy)
	k.ask(http.MethodPost, "/interrupt", http.StatusNoContent)
	if got := k.n.until("error", busy); !strings.Contains(got, "KeyboardInterrupt") {
		s.t.Errorf("interrupted: %s", got)
	}
	k.ask(http.MethodPost, "/restart", http.StatusOK)
	k.says("import os; print('x' in dir(), os.uname().nodename)", "False "+k.worker+".slipway.test")
	if n := s.submissions(k.work); n != 1 {
		s.t.Errorf("it was submitted %d times", n)
	}
	k.says("open('/opt/env/much', 'wb').write(os.urandom(50_000_000)); print('written')", "written")
	k.ask(http.MethodDelete, "", http.StatusNoContent)
	k.isGone()
}

// withoutIPyKernel has a kernel started that cannot run. Who asks is told why; where the pool takes longer than a
// client waits, by what becomes of the kernel.
func (s *farSite) withoutIPyKernel() {
	s.t.Helper()
	const why = "its environment has no ipykernel"
	r := s.call("alice", http.MethodPost, "/kernels/api/kernels", map[string]any{"name": "bare"})
	if r.status == http.StatusCreated {
		id := r.object(s.t)["session"].(string)
		s.eventually("the kernel has ended", func() bool { return s.phase("alice", "sessions", id) == "stopped" })
		if outcome := s.show("alice", "sessions", id)["outcome"]; !strings.Contains(fmt.Sprint(outcome), why) {
			s.t.Errorf("without ipykernel it has ended so: %v", outcome)
		}
	} else if r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), why) {
		s.t.Errorf("without ipykernel: %d %s", r.status, r.body)
	}
}

// isGone waits until nothing is left of a kernel: no record, no job, no process.
func (k *farKernel) isGone() {
	k.s.t.Helper()
	k.s.eventually("the kernel is gone", func() bool {
		return k.s.call(k.user, http.MethodGet, "/api/v1/sessions/"+k.work, nil).status == http.StatusNotFound
	})
	if left := k.s.jobsOf(k.work); len(left) > 0 {
		k.s.t.Errorf("of the kernel there is %v", left)
	}
	k.s.eventually("no process of it is left", func() bool {
		return !strings.Contains(strings.Join(k.s.pool.Processes(k.s.t, k.worker), "\n"), "ipykernel_launcher")
	})
}

// counting starts a kernel and a cell in it that counts.
func (s *farSite) counting(user string) (*farKernel, string) {
	k := s.kernel(user)
	request := k.n.run(count)
	k.n.until("stream", request)
	return k, request
}

// counted ends the count, and holds it to have left out nothing. What its client has had may come again.
func (k *farKernel) counted(request string) {
	k.s.t.Helper()
	k.s.eventually("the kernel's agent is reached", func() bool {
		return k.s.call(k.user, http.MethodPost, "/kernels/api/kernels/"+k.id+"/interrupt", nil).status == http.StatusNoContent
	})
	next := 0
	for i, line := range k.hears(request, "all") {
		n, err := strconv.Atoi(line)
		if i == 0 {
			next = n
		}
		if err == nil && n > next {
			k.s.t.Fatalf("between %d and %d something is missing", next, n)
		}
		next = max(next, n+1)
	}
}

// beginsAnew waits until a kernel runs whose place was taken away, and then has an administrator hold it. Its client is
// to be told of both.
func (k *farKernel) beginsAnew() {
	k.s.t.Helper()
	k.s.eventually("it is submitted anew", func() bool { return k.s.submissions(k.work) == 2 })
	k.s.running(k.work)
	k.attach(k.s)
	if said := k.n.until("stream", k.n.run("print('anew')")); !strings.Contains(said, "has lost its place") {
		k.s.t.Errorf("where it begins anew it says %s", said)
	}
	k.s.pool.Admin(k.s.t, "condor_hold", "-reason", "the site is being repaired", k.s.jobsOf(k.work)[0])
	if said := k.ends(); !strings.Contains(said, "an administrator holds it: the site is being repaired (by user condor): start another") {
		k.s.t.Errorf("of what holds it is told: %s", said)
	}
	k.ask(http.MethodDelete, "", http.StatusNoContent)
	k.isGone()
}

// process returns the number of the kernel's process, as this host counts.
func (k *farKernel) process() int {
	k.s.t.Helper()
	for _, line := range k.s.pool.Processes(k.s.t, k.worker) {
		if number, what, _ := strings.Cut(line, " "); strings.Contains(what, "ipykernel_launcher") {
			pid, err := strconv.Atoi(number)
			if err != nil {
				k.s.t.Fatal(err)
			}
			return pid
		}
	}
	k.s.t.Fatalf("no kernel runs on %s", k.worker)
	return 0
}

// loseAgent kills the kernel's agent, which is its parent.
func (k *farKernel) loseAgent() {
	k.s.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", k.process()))
	if err != nil {
		k.s.t.Fatal(err)
	}
	parent, err := strconv.Atoi(strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))[1])
	if err == nil {
		err = syscall.Kill(parent, syscall.SIGKILL)
	}
	if err != nil {
		k.s.t.Fatal(err)
	}
	if said := k.ends(); !strings.Contains(said, "Slipway: its container was killed on the worker node by signal 9 (killed): start another") {
		k.s.t.Errorf("its clients are told: %s", said)
	}
	k.ask(http.MethodDelete, "", http.StatusNoContent)
	k.isGone()
}
