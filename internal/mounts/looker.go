package mounts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Looker has one process look at all paths that it is asked for, each by itself. A look at a file system that is silent
// holds a thread of that process for as long, and none of this one; how many such there are is the caller's to bound. It
// is beside Asker because the mounts of all sessions are looked at every few seconds, for which a process each is too
// much, and because all of its looks end with the mounts: those of FUSE can be ended, and no look outlasts that.
type Looker struct {
	program []string // argv of what calls Look

	mu      sync.Mutex
	process *child
	ask     io.WriteCloser
	waiting map[int]chan<- error
	asked   int
	read    sync.WaitGroup // of answers
}

// NewLooker makes a Looker. Its process begins with the first look.
func NewLooker(program []string) *Looker { return &Looker{program: program} }

// At looks at a path until there is an answer, or the process has ended. What is the matter is a syscall.Errno.
func (l *Looker) At(path string) error {
	said := make(chan error, 1)
	if err := l.send(path, said); err != nil {
		return fmt.Errorf("have a process look at %s: %w", path, err)
	}
	return <-said
}

func (l *Looker) send(path string, said chan<- error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == nil {
		if err := l.begin(); err != nil {
			return err
		}
	}
	l.asked++
	l.waiting[l.asked] = said
	if _, err := fmt.Fprintf(l.ask, "%d %q\n", l.asked, path); err != nil {
		delete(l.waiting, l.asked)
		return err
	}
	return nil
}

// begin starts the process, and what takes its answers.
func (l *Looker) begin() error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	answers, say, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	cmd := exec.Command(l.program[0], l.program[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, say, say
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to the service's group are not meant for it
	if err = errors.Join(cmd.Start(), in.Close(), say.Close()); err != nil {
		return errors.Join(err, out.Close(), answers.Close())
	}
	c := &child{process: cmd.Process, words: answers}
	l.process, l.ask, l.waiting = c, out, map[int]chan<- error{}
	l.read.Go(func() { l.listen(c) })
	return nil
}

// listen takes the answers until the process has ended. Who waits then is told so, and the next look begins another.
func (l *Looker) listen(c *child) {
	lines := bufio.NewScanner(c.words)
	for lines.Scan() {
		l.answered(lines.Text())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, said := range l.waiting {
		said <- errors.New("the process that looks has ended")
	}
	_ = errors.Join(l.ask.Close(), c.words.Close())
	c.end()
	l.process, l.waiting = nil, nil
}

func (l *Looker) answered(line string) {
	id, number, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(id)
	code, err2 := strconv.Atoi(number)
	if err != nil || err2 != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if said, waits := l.waiting[n]; waits {
		delete(l.waiting, n)
		if code != 0 {
			said <- syscall.Errno(code)
		}
		close(said)
	}
}

// Close ends the process, and waits for none of its looks.
func (l *Looker) Close() {
	l.mu.Lock()
	if l.process != nil {
		_ = l.process.process.Kill()
		_ = l.process.words.SetReadDeadline(time.Unix(1, 0)) // a thread that the kernel holds keeps its end open
	}
	l.mu.Unlock()
	l.read.Wait()
}

// LookCommand is the command of slipway that is Look.
const LookCommand = "look-at-paths"

// Look is the whole of the program `slipway look-at-paths`: it looks at what it reads a line each of, and says what the
// kernel says.
func Look(ctx context.Context, r io.Reader, w io.Writer) error {
	defer context.AfterFunc(ctx, func() { os.Exit(1) })() // a look that does not come back holds up nothing
	var says sync.Mutex
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		id, quoted, _ := strings.Cut(lines.Text(), " ")
		path, err := strconv.Unquote(quoted)
		if err != nil {
			return fmt.Errorf("read what to look at: %w", err)
		}
		go func() {
			code := numberOf(LookAt(path))
			says.Lock()
			defer says.Unlock()
			_, _ = fmt.Fprintf(w, "%s %d\n", id, code)
		}()
	}
	return lines.Err()
}

// LookAt looks at a path, and opens it when it is a directory: the kernel remembers for a while what a file system has
// said of one.
func LookAt(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return err
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return d.Close()
}

// numberOf returns the kernel's number of an error; none is 0.
func numberOf(err error) int {
	if err == nil {
		return 0
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		return int(number)
	}
	return int(syscall.EIO)
}
