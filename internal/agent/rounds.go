package agent

import (
	"net/http"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"slipway/internal/agent/process"
	"slipway/internal/errs"
)

const (
	roundTime  = time.Minute // for a look at the user's data: more than the program itself takes
	roundText  = 4 << 10     // bytes kept of what it says
	roundGrace = 8 * time.Second
	roundNice  = 15
)

// rounds runs the program that looks at the user's data and tells the service: once the app is up, and when somebody
// asks. Two never run at a time, and it stands behind whatever else the session does.
type rounds struct {
	agent *agent

	mu   sync.Mutex
	argv []string
	busy bool
}

// know takes note of the program; empty: there is none.
func (r *rounds) know(argv []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.argv = argv
}

// serve begins a look. One that goes on already is as good.
func (r *rounds) serve(*http.Request) error {
	r.mu.Lock()
	known := len(r.argv) > 0
	r.mu.Unlock()
	if !known || r.agent.app.process() == 0 {
		return errs.New(errs.Unavailable, "nothing looks at the data of this session").
			With("start the session again, or run `slipway doctor data` in it")
	}
	r.begin()
	return nil
}

// begin begins a look unless there is none to make, or one goes on.
func (r *rounds) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy || len(r.argv) == 0 || closed(r.agent.finished) {
		return
	}
	r.busy = true
	argv := r.argv
	r.agent.work.Go(func() {
		r.look(argv)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy = false
	})
}

// look runs the program to its end, or the agent's, or until its time is over. It removes what it has written when it
// is asked to end.
func (r *rounds) look(argv []string) {
	s, log := r.agent.app, r.agent.log
	env := s.surroundings()
	program, err := process.Find(argv[0], r.agent.cfg.WorkDir, variable(env, "PATH"))
	if err != nil {
		log.Warn("nothing looks at the session's data", "error", err)
		return
	}
	pid, done, pipe, err := r.fork(program, argv, env)
	if err != nil {
		log.Warn("nothing looks at the session's data", "error", err)
		return
	}
	text := &head{limit: roundText}
	var reading sync.WaitGroup
	reading.Go(func() { drain(text, pipe) })
	e := r.await(pid, done)
	_ = pipe.SetReadDeadline(time.Now().Add(drainTime))
	reading.Wait()
	_ = pipe.Close()
	if e.Status.ExitStatus() > 1 || e.Status.Signaled() { // 1: it has found something
		log.Warn(
			"the look at the session's data did not come to its end", "status", int(e.Status), "said", text.b.String(),
		)
	}
}

// fork starts the program with a low priority from its first instruction on: what it has begun by the time that another
// process lowers it keeps the old one. A thread cannot raise its own again, so this one ends.
func (r *rounds) fork(
	program string, argv, env []string,
) (pid int, done <-chan process.Exit, pipe *os.File, err error) {
	forked := make(chan struct{})
	go func() {
		defer close(forked)
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		// of the thread; without, it is in nobody's way either
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, roundNice)
		pid, done, pipe, err = r.agent.app.fork(program, argv, r.agent.cfg.WorkDir, env)
	}()
	<-forked
	return pid, done, pipe, err
}

// await waits for the program's end, and ends it where it must.
func (r *rounds) await(pid int, done <-chan process.Exit) process.Exit {
	clock := time.NewTimer(roundTime)
	defer clock.Stop()
	select {
	case e := <-done:
		return e
	case <-clock.C:
	case <-r.agent.finished:
	case <-r.agent.ctx.Done():
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	clock.Reset(roundGrace)
	select {
	case e := <-done:
		return e
	case <-clock.C:
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	return <-done
}
