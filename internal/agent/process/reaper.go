// Package process starts the programs of a workload, takes the ends of all processes that come from them, says in words
// how one ended, and counts their CPU time and memory.
//
// It promises that each end is taken once, that nothing which was begun outlives the agent, and that an app goes before
// the agent does when memory runs out. It must not know what a program is for.
package process

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/errs"
)

// Exit is how a process ended.
type Exit struct {
	Status syscall.WaitStatus
	Usage  syscall.Rusage
}

// Reaper starts processes and takes their ends. Where it is the first process of a container, or stands in for one, it
// also takes the orphans that end up with it; there it alone may call wait, so that no end is taken twice, and it
// starts processes under its own lock, so that an end is never taken before somebody waits for it.
type Reaper struct {
	first bool // orphans end up here

	mu    sync.Mutex
	over  bool // nothing is started any more
	waits map[int]waiting
	alone sync.WaitGroup // of waits for single processes
}

// waiting is who waits for a process.
type waiting struct {
	told  chan Exit
	group bool // what is left of its group ends with it
}

// BecomeSubreaper has the orphans among this process's descendants end up with it as with a first process, and reports whether
// they do.
func BecomeSubreaper() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// NewReaper returns a reaper; first says that orphans end up with this process.
func NewReaper(first bool) *Reaper { return &Reaper{first: first, waits: map[int]waiting{}} }

// Start starts a program in a session and process group of its own. The channel gives its end, once; what is then left
// of its group has been killed.
func (r *Reaper) Start(program string, argv []string, attr *syscall.ProcAttr) (int, <-chan Exit, error) {
	attr.Sys = &syscall.SysProcAttr{Setsid: true}
	return r.Begin(program, argv, attr, true)
}

// Begin starts a program as attr says. The channel gives its end, once.
func (r *Reaper) Begin(program string, argv []string, attr *syscall.ProcAttr, group bool) (int, <-chan Exit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return 0, nil, errs.New(errs.Conflict, "the agent is ending")
	}
	pid, err := spawn(program, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	ch := make(chan Exit, 1)
	if r.first {
		r.waits[pid] = waiting{ch, group}
	} else {
		r.alone.Go(func() { ch <- waitFor(pid, group) })
	}
	return pid, ch, nil
}

const UserMask = 0o022 // files are for their owner to change: all users of a site may have one group

// spawn forks with the mask and the standing with the kernel's out-of-memory killer that an app is to have: it goes
// before the agent does. A process may always raise its own standing and take that back.
func spawn(program string, argv []string, attr *syscall.ProcAttr) (int, error) {
	const standing = "/proc/self/oom_score_adj"
	if old, err := os.ReadFile(standing); err == nil && os.WriteFile(standing, []byte("1000"), 0) == nil {
		defer func() { _ = os.WriteFile(standing, old, 0) }()
	}
	defer syscall.Umask(syscall.Umask(UserMask))
	return syscall.ForkExec(program, argv, attr)
}

// Run takes orphans until ctx ends, and then the ends of what was killed before: somebody waits for each.
func (r *Reaper) Run(ctx context.Context) {
	defer r.alone.Wait()
	if !r.first {
		<-ctx.Done()
		return
	}
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	defer signal.Stop(child)
	for ending := ctx.Done(); ; {
		if awaited := r.reap(); awaited == 0 && ctx.Err() != nil {
			return
		}
		select {
		case <-child:
		case <-ending:
			ending = nil
		}
	}
}

// reap takes all ends that there are, and returns how many are still awaited.
func (r *Reaper) reap() (awaited int) {
	for {
		r.mu.Lock()
		var e Exit
		pid, err := syscall.Wait4(-1, &e.Status, syscall.WNOHANG, &e.Usage)
		w := r.waits[pid]
		delete(r.waits, pid)
		awaited = len(r.waits)
		r.mu.Unlock()
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			return awaited
		}
		if w.group {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
		if w.told != nil {
			w.told <- e
		}
	}
}

// waitFor waits for one child. Its group, where that ends with it, is killed while its number is still its own.
func waitFor(pid int, group bool) Exit {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			break
		}
	}
	if group {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	var e Exit
	for {
		if _, err := syscall.Wait4(pid, &e.Status, 0, &e.Usage); err != syscall.EINTR {
			return e
		}
	}
}

// KillAll ends every other process of the container. Outside of one it ends what this process has begun and what came
// of that, as far as it can be known, and gives up after patience: where orphans do not end up here, it does nothing.
// Nothing is started after it.
func (r *Reaper) KillAll(patience time.Duration) {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	again := time.NewTicker(killEvery)
	defer again.Stop()
	for end := time.Now().Add(patience); r.first && time.Now().Before(end); <-again.C {
		list := Below(List("/proc"), os.Getpid())
		if len(list) == 0 {
			return
		}
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

const killEvery = 10 * time.Millisecond // what is killed may just have begun another

// Below returns the descendants of a process.
func Below(list []Stat, pid int) (found []int) {
	children := map[int][]int{}
	for _, p := range list {
		children[p.Parent] = append(children[p.Parent], p.Pid)
	}
	for next := children[pid]; len(next) > 0; next = next[1:] {
		found = append(found, next[0])
		next = append(next, children[next[0]]...)
	}
	return found
}
