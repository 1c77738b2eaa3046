package mounts

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	endTime   = 300 * time.Millisecond // for a killed process to go
	mostWords = 8 << 10
)

// child is a process that looks at a directory. Nobody waits for it without bound: one that the kernel holds cannot be
// killed.
type child struct {
	process *os.Process
	words   *os.File
}

func begin(argv []string) (*child, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to the service's group are not meant for it
	err = errors.Join(cmd.Start(), w.Close())
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &child{process: cmd.Process, words: r}, nil
}

// read waits for all that it has to say. heard is false when that has not come in time.
func (c *child) read(ctx context.Context, patience time.Duration) (said []byte, heard bool, err error) {
	defer c.words.Close()
	if err := c.words.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, true, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.words.SetReadDeadline(time.Unix(1, 0)) })()
	said, err = io.ReadAll(io.LimitReader(c.words, mostWords))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, false, nil
	}
	return said, true, err
}

// end kills it, and reports whether it is gone.
func (c *child) end() bool {
	_ = c.process.Kill() // it may have ended
	over := time.NewTimer(endTime)
	defer over.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !c.gone() {
		select {
		case <-over.C:
			return false
		case <-tick.C:
		}
	}
	return true
}

// gone takes note of its end, once it has ended.
func (c *child) gone() bool {
	pid, err := syscall.Wait4(c.process.Pid, nil, syscall.WNOHANG, nil)
	if err == nil && pid == 0 || errors.Is(err, syscall.EINTR) {
		return false
	}
	_ = c.process.Release()
	return true
}
