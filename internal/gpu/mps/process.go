package mps

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func effectiveUID() int { return os.Geteuid() }

// processes returns the control daemon of a pipe directory, 0 when there is none, and its servers. They are known by
// their names, their environment and their owner, which nobody else can be.
func (d *Daemons) processes(g daemon) (control int, servers []int) {
	entries, err := os.ReadDir(d.cfg.Proc)
	if err != nil {
		return 0, nil
	}
	mark := []byte("CUDA_MPS_PIPE_DIRECTORY=" + g.pipe())
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		argv := d.read(pid, "cmdline")
		isServer := named(argv, "nvidia-cuda-mps-server")
		isControl := named(argv, filepath.Base(d.cfg.Control)) && hasWord(argv, "-d")
		if !isServer && !isControl || !hasField(d.read(pid, "environ"), mark) || !d.owned(pid) {
			continue
		}
		if isServer {
			servers = append(servers, pid)
		} else {
			control = pid
		}
	}
	return control, servers
}

// read returns a file of a process, nothing when the process is gone.
func (d *Daemons) read(pid int, name string) []byte {
	text, err := os.ReadFile(filepath.Join(d.cfg.Proc, strconv.Itoa(pid), name))
	if err != nil {
		return nil
	}
	return text
}

// owned reports whether a process is the service's user's: nobody else's can pass for the daemon.
func (d *Daemons) owned(pid int) bool {
	info, err := os.Stat(filepath.Join(d.cfg.Proc, strconv.Itoa(pid)))
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == d.uid
}

// named reports whether a command line is that of a program, as itself or as a script.
func named(argv []byte, program string) bool {
	words := strings.SplitN(string(argv), "\x00", 3)
	return filepath.Base(words[0]) == program || len(words) > 1 && filepath.Base(words[1]) == program
}

func hasWord(argv []byte, word string) bool { return hasField(argv, []byte(word)) }

func hasField(list, field []byte) bool {
	for f := range bytes.SplitSeq(list, []byte{0}) {
		if bytes.Equal(f, field) {
			return true
		}
	}
	return false
}

// gone waits until the daemon and its servers have ended.
func (d *Daemons) gone(ctx context.Context, g daemon) bool {
	return d.until(ctx, func() bool {
		control, servers := d.processes(g)
		return control == 0 && len(servers) == 0
	})
}

// until asks again and again, for as long as a command may take.
func (d *Daemons) until(ctx context.Context, ok func() bool) bool {
	limited, cancel := context.WithTimeout(ctx, d.cfg.Deadline)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limited.Done():
			return ok()
		}
	}
	return true
}

// kill ends what did not end when told to. It looks for the processes anew each time: a number may have gone to
// another.
func (d *Daemons) kill(ctx context.Context, g daemon) bool {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		control, servers := d.processes(g)
		for _, pid := range append(servers, control) {
			if pid > 0 {
				_ = syscall.Kill(pid, sig)
			}
		}
		if d.gone(ctx, g) {
			return true
		}
	}
	return false
}
