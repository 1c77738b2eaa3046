package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"slipway/internal/agent/process"
	"slipway/internal/clock"
	"slipway/internal/errs"
)

const (
	mostStill  = 30 * time.Second     // how long a session may be held still
	stopTime   = 5 * time.Second      // how long its processes may take to stop
	stopEvery  = 2 * time.Millisecond // how often it is looked whether they have
	stopRounds = int(stopTime / stopEvery)
)

// stillness holds the workload's processes still. Whoever ends the agent meanwhile ends them too.
type stillness struct {
	proc string
	self int
	all  bool // every process is the workload's
	kill func(pid int, s syscall.Signal) error

	stopped []int // in this order
	began   time.Time
}

func newStillness(proc string, self int, all bool) *stillness {
	return &stillness{proc: proc, self: self, all: all, kill: syscall.Kill}
}

// stop returns when all stand still, and none has made another meanwhile. A process stops before its children do, and
// goes on after them: a shell must not see that what it runs was stopped, for it would take the terminal back.
func (s *stillness) stop(ctx context.Context) error {
	s.began = time.Now()
	for range stopRounds {
		moving, err := s.round()
		if err != nil || !moving {
			return err
		}
		if !clock.Sleep(ctx, stopEvery) {
			return ctx.Err()
		}
	}
	return errs.New(errs.Conflict, "the session's processes did not stand still within %v", stopTime).
		With("freeze again when it does less")
}

// round stops those of the first generation in which any moves.
func (s *stillness) round() (moving bool, err error) {
	for _, generation := range s.generations() {
		for _, pid := range generation {
			if !runs(stateOf(s.proc, pid)) {
				continue
			}
			moving = true
			if slices.Contains(s.stopped, pid) {
				continue // it takes the signal in a moment
			}
			if err := s.kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
				return true, errs.New(errs.Conflict, "process %d of the session cannot be held still: %w", pid, err).
					With("end it, and freeze again")
			}
			s.stopped = append(s.stopped, pid)
		}
		if moving {
			return true, nil
		}
	}
	return false, nil
}

func runs(state byte) bool { return state != 0 && !strings.ContainsRune("TtZX", rune(state)) }

// resume lets those go on that stop has stopped.
func (s *stillness) resume() error {
	for _, pid := range slices.Backward(s.stopped) {
		_ = s.kill(pid, syscall.SIGCONT) // one that is gone needs it no more
	}
	s.stopped = nil
	if time.Since(s.began) > mostStill {
		return errs.New(
			errs.Conflict, "the session was not held still for more than %v, and its changes were not sent by then",
			mostStill,
		).With("freeze it again when it writes less, or over a faster network")
	}
	return nil
}

// generations lists the workload's processes, children behind their parents, without the agent, and without the first
// one of its namespace, which has none of its files.
func (s *stillness) generations() [][]int {
	list := process.List(s.proc)
	known, children := map[int]bool{}, map[int][]int{}
	for _, p := range list {
		known[p.Pid] = p.Pid != 1
	}
	for _, p := range list {
		parent := p.Parent
		if s.all && !known[parent] {
			parent = s.self
		}
		if p.Pid != s.self && p.Pid != 1 {
			children[parent] = append(children[parent], p.Pid)
		}
	}
	var out [][]int
	for generation := children[s.self]; len(generation) > 0 && len(out) < len(list); {
		out = append(out, generation)
		var next []int
		for _, pid := range generation {
			next = append(next, children[pid]...)
		}
		generation = next
	}
	return out
}

// stateOf returns the letter of a process's state; 0: it is gone.
func stateOf(proc string, pid int) byte {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	at := bytes.LastIndex(b, []byte(") "))
	if at < 0 || at+2 >= len(b) {
		return 0
	}
	return b[at+2]
}
