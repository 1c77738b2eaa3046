package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dir is a job's control directory, root's alone:
//
//	lock         held by the service while it starts the shim, and by the shim as long as that lives
//	launch.json  the plan, what the shim is to run
//	pid          the shim's, valid while the lock is held
//	started      there once the container's program was started
//	exit.json    how it ended
//	output       the first words of Apptainer and of the agent, for the administrator
//	scratch/     the job's /tmp and /var/tmp
//	home/        a trial's
type dir string

const (
	lockFile    = "lock"
	launchFile  = "launch.json"
	pidFile     = "pid"
	startedFile = "started"
	exitFile    = "exit.json"
	outputFile  = "output"
	scratchDir  = "scratch"
	trialHome   = "home"
)

const (
	terminate = syscall.SIGTERM
	kill      = syscall.SIGKILL
)

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

// has reports whether the directory holds a file of that name; "." asks for the directory itself.
func (d dir) has(name string) bool {
	_, err := os.Lstat(d.path(name))
	return err == nil
}

// plan reads what the shim is to run.
func (d dir) plan() (plan, error) {
	var p plan
	return p, d.read(launchFile, &p)
}

// exit reads how the job ended.
func (d dir) exit() (exit, error) {
	data, err := os.ReadFile(d.path(exitFile))
	if err != nil {
		return exit{}, err
	}
	return parseExit(data)
}

func (d dir) read(name string, into any) error {
	data, err := os.ReadFile(d.path(name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", d.path(name), err)
	}
	return nil
}

// write puts a value into a file whole, or leaves the file as it was, also when the host crashes.
func (d dir) write(name string, value any) error {
	if err := d.put(name, value, (*os.File).Sync); err != nil {
		return err
	}
	return syncDir(string(d))
}

// put puts a value into a file whole, or leaves the file as it was. What is to survive a crash of the host is synced
// before it gets its name.
func (d dir) put(name string, value any, sync func(*os.File) error) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", d.path(name), err)
	}
	part := d.path(name + ".part")
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Truncate(int64(len(data))), sync(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", part, err)
	}
	return os.Rename(part, d.path(name))
}

// reserve takes room on the disk for what is to be written under a name: the job may fill the disk meanwhile.
func (d dir) reserve(name string) error {
	return os.WriteFile(d.path(name+".part"), make([]byte, 4<<10), 0o600)
}

// unsynced is the sync of what means nothing after a crash of the host.
func unsynced(*os.File) error { return nil }

// mark makes an empty file, and brings it to the disk with the names of all that was put before.
func (d dir) mark(name string) error {
	f, err := os.OpenFile(d.path(name), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(string(d)))
}

func syncDir(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// forget removes what an earlier start left, but not what it wrote for the job.
func (d dir) forget() error {
	for _, name := range []string{launchFile, pidFile, startedFile, exitFile, outputFile} {
		if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// lock takes the lock of the directory; ok is false when another holds it. The lock lasts until every copy of the file
// is closed, those that programs have inherited too.
func (d dir) lock() (f *os.File, ok bool, err error) { return d.lockFile(lockFile, unix.F_WRLCK) }

// lockFile takes a lock of a kind of a file of the directory.
func (d dir) lockFile(name string, kind int16) (f *os.File, ok bool, err error) {
	f, err = os.OpenFile(d.path(name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind})
	if err == nil {
		return f, true, nil
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, false, f.Close()
	}
	return nil, false, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
}

// held reports whether somebody holds the lock. It asks without taking the lock, so askers do not disturb a start.
func (d dir) held() (bool, error) {
	f, err := os.OpenFile(d.path(lockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	asked := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &asked); err != nil {
		return false, fmt.Errorf("ask for the lock %s: %w", f.Name(), err)
	}
	return asked.Type != unix.F_UNLCK, nil
}

// awaitFree waits until the lock is free; false means that it was held all the time.
func (d dir) awaitFree(ctx context.Context, limit time.Duration) (bool, error) {
	return d.awaitFreeEvery(ctx, limit, soon())
}

// awaitFreeEvery is awaitFree with other pauses.
func (d dir) awaitFreeEvery(ctx context.Context, limit time.Duration, p pauses) (bool, error) {
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		if held, err := d.held(); err != nil || !held {
			return err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-over.C:
			return false, nil
		case <-p.next():
		}
	}
}

// signal signals the shim if it lives. The lock is asked for again once the process is in hand: a process ID may have
// passed to another program, the lock not.
func (d dir) signal(s syscall.Signal) error {
	data, err := os.ReadFile(d.path(pidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("the shim's process ID %q is none", data)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("find the shim: %w", err)
	}
	defer p.Release()
	if held, err := d.held(); err != nil || !held {
		return err
	}
	if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal the shim: %w", err)
	}
	return nil
}
