package local

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/apptainer"
	"slipway/internal/quota"
	"slipway/spawner/local/cgroup"
)

// The files that a shim and an enter program inherit behind the standard three.
const (
	lockFD   = 3 // both: the lock of the control directory. The enter program has it so long as it could get lost
	wordFD   = 4 // the shim's: where it tells the service how the start went
	statusFD = 4 // the enter program's: where it tells the shim what went wrong
	// The enter program's: the job's network namespace, if it has one of the shim's making.
	networkFD = 5
	usersFD   = 5 // the shim's: the lock that keeps the job's image mounted, if that is shared
)

// Shim keeps one job: it starts it, enforces its time limit, passes on the request to end (SIGTERM, or ctx), waits,
// kills what is left, and writes down how it ended. It is the whole of the program `slipway local-shim DIR`, and
// returns once nothing of the job runs. It needs no service: the lock of DIR, which it inherits, tells that it lives.
func Shim(ctx context.Context, name string) error {
	runtime.LockOSThread() // the enter program dies with the thread that started it
	defer runtime.UnlockOSThread()
	d := dir(name)
	word := os.NewFile(wordFD, "word")
	defer word.Close()
	if err := closeOnExec(lockFD); err != nil {
		return tell(word, err)
	}
	k, err := d.keep()
	if err != nil {
		return tell(word, err)
	}
	if err := k.start(); err != nil {
		return errors.Join(k.group.Remove(), tell(word, err))
	}
	// From here on the job is kept whatever happens; the service may have been killed meanwhile.
	err = d.mark(startedFile)
	_ = tell(word, nil)
	return errors.Join(err, k.wait(ctx))
}

// tell gives the service one word, and returns err.
func tell(w *os.File, err error) error {
	said := wordOK
	if err != nil {
		said = err.Error()
	}
	_, werr := w.WriteString(said)
	return errors.Join(err, werr, w.Close())
}

// keeper is a shim at work.
type keeper struct {
	dir    dir
	plan   plan
	group  cgroup.Group
	net    *network // nil: it has none of the shim's making
	pid    int      // of the container's program
	output *os.File // what that and its children write
}

// keep makes the calling process the keeper of the directory's job. Its process ID is written before the plan is read:
// an abandoned start either finds the one to kill, or the shim finds no plan.
func (d dir) keep() (*keeper, error) {
	if err := d.reserve(exitFile); err != nil {
		return nil, err
	}
	if err := d.put(pidFile, os.Getpid(), unsynced); err != nil {
		return nil, err
	}
	p, err := d.plan()
	if err != nil {
		return nil, err
	}
	t := cgroup.New(cgroup.Root, p.Cgroups)
	aside, group := t.Group(cgroup.Shims), t.Group(p.ID)
	for _, act := range []func() error{aside.Create, aside.Join, group.Create, func() error { return group.Limit(p.Resources) }} {
		if err := act(); err != nil {
			return nil, errors.Join(err, group.Remove())
		}
	}
	// What loses its parent becomes the shim's child, so that none stays behind as a zombie.
	err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	return &keeper{dir: d, plan: p, group: group}, err
}

// start makes the job's network and starts its container. It returns when Apptainer runs and the network is there.
func (k *keeper) start() (err error) {
	if k.net, err = openNetwork(k.dir, k.plan); err != nil {
		return err
	}
	if err = k.startContainer(); err == nil {
		err = k.net.ready()
	}
	if err != nil {
		return errors.Join(err, k.group.Kill(context.Background()), k.net.end(context.Background()))
	}
	return nil
}

// startContainer starts the enter program in a mount namespace of its own, and returns when that has become Apptainer.
func (k *keeper) startContainer() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	output, into, err := os.Pipe()
	if err != nil {
		return err
	}
	defer into.Close()
	status, failed, err := os.Pipe()
	if err != nil {
		return errors.Join(err, output.Close())
	}
	defer status.Close()
	// The user's, so that a program may open /dev/stderr.
	err = into.Chown(k.plan.Account.UID, k.plan.Account.GID)
	files := []uintptr{null.Fd(), into.Fd(), into.Fd(), lockFD, failed.Fd()}
	if k.net != nil {
		files = append(files, k.net.space.Fd())
	}
	if err == nil {
		k.pid, err = syscall.ForkExec("/proc/self/exe", []string{
			"slipway", "local-enter", string(k.dir),
		}, &syscall.ProcAttr{
			Dir: "/", Env: []string{}, Files: files,
			Sys: &syscall.SysProcAttr{Cloneflags: k.plan.namespaces(), Setsid: true, Pdeathsig: kill},
		})
	}
	if err := errors.Join(err, failed.Close()); err != nil {
		return errors.Join(err, output.Close())
	}
	k.output = output
	return k.entered(status)
}

// entered waits until the enter program has become Apptainer, or has said why it has not.
func (k *keeper) entered(status io.Reader) error {
	if k.plan.Mounted != "" {
		defer time.AfterFunc(answerWithin, func() { _ = k.plan.killImage(context.Background()) }).Stop()
	}
	said, err := io.ReadAll(io.LimitReader(status, 64<<10))
	if err == nil && len(said) == 0 {
		return nil
	}
	_ = syscall.Kill(k.pid, kill)
	_, werr := syscall.Wait4(k.pid, nil, 0, nil)
	return errors.Join(err, errors.New(string(said)), werr, k.output.Close())
}

// wait sees the job to its end.
func (k *keeper) wait(ctx context.Context) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, terminate, syscall.SIGINT)
	defer signal.Stop(asked)
	ended, begun := make(chan syscall.WaitStatus, 1), time.Now()
	var words []byte
	var helpers sync.WaitGroup
	netCtx, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	helpers.Go(func() { k.net.serve(netCtx) })
	full := make(chan int64, 1)
	if k.plan.Measured {
		helpers.Go(func() { k.measure(netCtx, full) })
	}
	helpers.Go(func() { reap(k.pid, ended) })
	helpers.Go(func() { words = keepFirst(k.output, k.plan.words()) })
	status, why := k.attend(ctx, asked, ended, full, begun)
	if why.full == 0 {
		why.full = k.plan.full()
	}
	refused := k.group.Refused() // before the end, which lets nobody start a process any more
	err := k.plan.end(context.WithoutCancel(ctx), k.group)
	leave()
	err = errors.Join(err, k.net.end(context.WithoutCancel(ctx)))
	used := k.group.Usage()
	helpers.Wait()
	e := k.account(status, words, why, used)
	if refused > 0 {
		e.Pids = k.plan.Resources.Pids
	}
	return errors.Join(err, k.output.Close(), os.WriteFile(k.dir.path(outputFile), words, 0o600),
		k.dir.write(exitFile, e), k.group.Remove())
}

// measure tells what the job has on disk when that is more than it may.
func (k *keeper) measure(ctx context.Context, full chan<- int64) {
	_ = quota.Watch(ctx, k.plan.Disk, func(used int64) {
		select {
		case full <- used:
		default:
		}
	}, k.plan.disk()...)
}

// limits tells which limit has ended a job.
type limits struct {
	late bool
	full int64 // what it had on disk
}

// attend waits for the end of the container's program, passes on the request to end, and ends it when its time is up or
// it has too much on disk.
func (k *keeper) attend(
	ctx context.Context, asked <-chan os.Signal, ended <-chan syscall.WaitStatus, full <-chan int64, begun time.Time,
) (s syscall.WaitStatus, why limits) {
	var limit, patience <-chan time.Time
	if k.plan.TimeLimit > 0 {
		limit = time.After(time.Until(begun.Add(k.plan.TimeLimit)))
	}
	stop := ctx.Done()
	for {
		select {
		case s := <-ended:
			return s, why
		case <-stop:
			stop = nil
			_ = syscall.Kill(k.pid, terminate)
		case <-asked:
			_ = syscall.Kill(k.pid, terminate)
		case <-limit:
			why.late, patience = true, time.After(k.plan.Grace)
			_ = syscall.Kill(k.pid, terminate)
		case used := <-full:
			if why.full == 0 {
				patience = time.After(k.plan.Grace)
			}
			why.full = max(why.full, used)
			_ = syscall.Kill(k.pid, terminate)
		case <-patience:
			_ = k.plan.end(context.WithoutCancel(ctx), k.group)
		}
	}
}

// account writes up the end.
func (k *keeper) account(s syscall.WaitStatus, words []byte, why limits, used cgroup.Usage) exit {
	e := exit{Code: s.ExitStatus(), Memory: k.plan.Resources.Memory, Usage: used, Ended: time.Now()}
	if s.Signaled() {
		e.Signal = int(s.Signal())
		e.Code = 128 + e.Signal
	}
	if why.late {
		e.Limit = k.plan.TimeLimit
	}
	if why.full > 0 {
		e.Disk, e.DiskUsed = k.plan.Disk, why.full
	}
	if e.Code == noContainer {
		e.Container = apptainer.Fatal(string(words))
	}
	return e
}

// reap collects every child and tells how the one with the given process ID ended. It returns when no child is left.
func reap(pid int, ended chan<- syscall.WaitStatus) {
	for {
		var s syscall.WaitStatus
		switch got, err := syscall.Wait4(-1, &s, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case got == pid:
			ended <- s
		}
	}
}

// keepFirst reads to the end and keeps the first words: a job that writes without end fills neither pipe nor disk.
func keepFirst(r io.Reader, limit int64) []byte {
	words, err := io.ReadAll(io.LimitReader(r, limit))
	if err == nil {
		_, _ = io.Copy(io.Discard, r)
	}
	return words
}
