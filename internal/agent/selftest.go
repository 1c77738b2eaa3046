package agent

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/agent/process"
)

const (
	selfTestTime  = 30 * time.Second
	selfTestGrace = time.Second // to say which check it was at
	selfTestText  = 64 << 10    // bytes kept of what it says

	nothingToTest = 77
	crashed       = 2 // how a Go program ends that has crashed, in a library's code too
	endedByTerm   = 128 + int(syscall.SIGTERM)
)

// beginTested starts the app when its self-test has found no fault.
func (s *supervisor) beginTested(ctx context.Context, app control.App) {
	fault := s.selfTest(ctx, app)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ending:
		s.notStarted(endedByTerm, "ended before it was started", "")
	case fault != "":
		s.notStarted(126, "the self-test before its start has failed: "+fault, fault)
	default:
		s.begin(app)
	}
}

// selfTest runs the test of an app and gives the fault that it found. What it said is in the app's log: all of it after
// a fault, and else a line in a session's. A job's log holds what its payload prints, and nothing besides.
func (s *supervisor) selfTest(ctx context.Context, app control.App) (fault string) {
	t := *app.SelfTest
	if t.Timeout <= 0 {
		t.Timeout = selfTestTime
	}
	start := time.Now()
	said, fault, note := s.runSelfTest(ctx, t, app)
	took := time.Since(start).Round(10 * time.Millisecond)
	if note != "" && t.Required {
		fault = note
	}
	s.agent.log.Info("self-test", "launch", app.Launch, "fault", fault, "note", note, "took", took)
	switch {
	case fault != "":
		fmt.Fprintf(s.out, "%sslipway: the self-test has failed after %s: %s\n", said, took, fault)
	case app.HTTP && note != "":
		fmt.Fprintf(s.out, "slipway: no self-test: %s\n", note)
	case app.HTTP:
		fmt.Fprintf(s.out, "slipway: the self-test took %s and found no fault\n", took)
	}
	return fault
}

// runSelfTest returns what the test said, and either the fault that it found or why it has tested nothing, or neither.
func (s *supervisor) runSelfTest(
	ctx context.Context, t control.SelfTest, app control.App,
) (said []byte, fault, note string) {
	if len(t.Argv) == 0 {
		return nil, "", "no program is named"
	}
	env, err := environ(s.agent.cfg, control.App{Env: ofGPUs(app.Env)}, 0, "")
	if err != nil {
		return nil, "", err.Error()
	}
	program, err := process.Find(t.Argv[0], s.agent.cfg.WorkDir, variable(env, "PATH"))
	if err != nil {
		_, reason := process.CannotRun(t.Argv[0], false, err)
		return nil, "", reason
	}
	before := process.ReadMemory(cgroupRoot)
	pid, done, pipe, err := s.fork(program, t.Argv, s.agent.cfg.WorkDir, env)
	if err != nil {
		_, reason := process.CannotRun(t.Argv[0], true, err)
		return nil, "", reason
	}
	text := &head{limit: selfTestText}
	var reading sync.WaitGroup
	reading.Go(func() { drain(text, pipe) })
	e, late := awaitSelfTest(ctx, pid, done, t.Timeout)
	_ = pipe.SetReadDeadline(time.Now().Add(drainTime))
	reading.Wait()
	_ = pipe.Close()
	if memory := process.ReadMemory(cgroupRoot).Exceeded(before); memory != "" {
		return text.b.Bytes(), "", memory // the session's own limit, and not what was tested
	}
	fault, note = judgeSelfTest(e.Status, text.b.String(), late, t.Timeout)
	return text.b.Bytes(), fault, note
}

// awaitSelfTest waits for the end of the test. When the agent ends, or the time is over, it ends the test.
func awaitSelfTest(
	ctx context.Context, pid int, done <-chan process.Exit, timeout time.Duration,
) (e process.Exit, late bool) {
	clock := time.NewTimer(timeout)
	defer clock.Stop()
	select {
	case e = <-done:
		return e, false
	case <-ctx.Done():
	case <-clock.C:
		late = true
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	grace := time.NewTimer(selfTestGrace)
	defer grace.Stop()
	select {
	case e = <-done:
	case <-grace.C:
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		e = <-done
	}
	return e, late
}

// judgeSelfTest tells a fault from a test that could not be made. The dynamic loader ends a program with 1 too when it
// does not suit the image's libc, so a fault needs its line.
func judgeSelfTest(s syscall.WaitStatus, said string, late bool, timeout time.Duration) (fault, note string) {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	first, last := lines[0], lines[len(lines)-1]
	told, found := strings.CutPrefix(last, "failed: ")
	switch {
	case found && (late || s.ExitStatus() == 1):
		return told, ""
	case late:
		return fmt.Sprintf("the self-test had not ended after %s", timeout), ""
	case s.Signaled():
		_, reason := process.ExitCode(s)
		return "the self-test has crashed: " + reason, ""
	case s.ExitStatus() == crashed:
		return "the self-test has crashed: " + first, ""
	case s.ExitStatus() == 0:
		return "", ""
	case s.ExitStatus() == nothingToTest:
		return "", last
	default:
		return "", fmt.Sprintf("it cannot run in this image: code %d: %s", s.ExitStatus(), last)
	}
}

// ofGPUs is what the self-test is given of an app's environment: the rest may hold secrets.
func ofGPUs(env control.Env) control.Env {
	few := control.Env{}
	for k, v := range env {
		if strings.HasPrefix(k, "CUDA_") || strings.HasPrefix(k, "NVIDIA_") || strings.HasPrefix(k, "SLIPWAY_GPU") {
			few[k] = v
		}
	}
	return few
}

// head keeps the beginning of what is written.
type head struct {
	limit int
	b     bytes.Buffer
}

// Write never fails.
func (h *head) Write(b []byte) (int, error) {
	if room := h.limit - h.b.Len(); room < len(b) {
		h.b.Write(b[:max(room, 0)])
		return len(b), nil
	}
	return h.b.Write(b)
}
