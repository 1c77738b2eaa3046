// Package command runs the command line programs of a batch system.
//
// Promises: arguments are a list, and no shell reads them; a command has its own time limit, and what it prints has a
// bound; it sees nothing of the service's environment but what tells where the batch system's configuration is; an
// error has the kind that tells whether trying again may help, and says in plain words what the command complained of.
// The package must not know a batch system, nor what the commands are for.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// Command is one of a batch system's, to be run.
type Command struct {
	Name  string // such as condor_q or squeue
	Args  []string
	Env   []string // beside what all of the batch system's programs have
	Input string
	// Holds is open in the command for as long as it runs, which is ended when this process is killed; what it has
	// started in its turn may go on. nil: it is nothing to wait for, and goes on by itself.
	Holds *os.File
}

// Runner runs a command and returns what it printed. Tests have one that needs no batch system.
type Runner func(ctx context.Context, c Command) ([]byte, error)

// Failure is a command that ran and did not end well.
type Failure struct {
	Name   string
	Code   int // -1: it was killed
	Stderr string
	cause  error
}

func (f *Failure) Error() string {
	if f.Stderr == "" {
		return fmt.Sprintf("%s: %v", f.Name, f.cause)
	}
	return fmt.Sprintf("%s: %s", f.Name, f.Stderr)
}

func (f *Failure) Unwrap() error { return f.cause }

// AsFailure finds the command that went wrong.
func AsFailure(err error) (*Failure, bool) { return errors.AsType[*Failure](err) }

// Complained reports whether a command complained of something, in lower case.
func Complained(err error, of string) bool {
	f, ok := AsFailure(err)
	return ok && strings.Contains(strings.ToLower(f.Stderr), of)
}

// Programs are those of a batch system.
type Programs struct {
	System  string // the batch system's name as people write it
	Dir     string // where they are; empty: on PATH
	Install string // what to do where one is not there
	// Keep is how the variables of the service's environment begin that tell where the configuration is.
	Keep  []string
	Noise string // how a line begins that is no complaint; empty: none does
	// Complaints say what it means that a command complains of something. The first that fits counts.
	Complaints []Complaint
}

// commandPatience is how long any command may take; commandDelay how long it may still hold its output after it was
// killed.
const (
	commandPatience = time.Minute
	commandDelay    = 2 * time.Second
	mostStderr      = 16 << 10
	mostOutput      = 512 << 20
)

// Run runs a command.
func (p Programs) Run(ctx context.Context, c Command) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	name, err := p.find(c.Name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, name, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin = "/", p.environ(os.Environ(), c.Env), strings.NewReader(c.Input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal to the service's group is not for it
	if c.Holds != nil {
		runtime.LockOSThread() // it would be killed when the thread ends that began it
		defer runtime.UnlockOSThread()
		cmd.ExtraFiles, cmd.SysProcAttr.Pdeathsig = []*os.File{c.Holds}, syscall.SIGKILL
	}
	cmd.WaitDelay = commandDelay
	out, complaint := bounded{most: mostOutput}, bounded{most: mostOutput}
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if out.over {
		return nil, errs.New(errs.Unavailable, "%s prints more than %d bytes", c.Name, mostOutput).With(AskAdmin)
	}
	if err != nil {
		return out.Bytes(), p.explain(ctx, c.Name, err, complaint.Bytes())
	}
	return out.Bytes(), nil
}

// bounded takes what a command prints, up to so many bytes: others have a say in what is in a queue.
type bounded struct {
	bytes.Buffer
	most int
	over bool // there was more
}

// Write fails when it is too much, and the command with it.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.over = true
		return 0, errors.New("too much")
	}
	return b.Buffer.Write(p)
}

// ReadFrom is Write's, not the buffer's own.
func (b *bounded) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{b}, r) }

func (p Programs) find(name string) (string, error) {
	path, err := exec.LookPath(filepath.Join(p.Dir, name))
	if err != nil {
		return "", errs.New(errs.Missing, "%s's command %s is not on this host", p.System, name).With(p.Install)
	}
	return path, nil
}

// environ is a command's environment: where the configuration is, and nothing of the service's own.
func (p Programs) environ(of, more []string) []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/nonexistent",
	}
	for _, v := range of {
		if slices.ContainsFunc(p.Keep, func(begin string) bool { return strings.HasPrefix(v, begin) }) {
			env = append(env, v)
		}
	}
	return append(env, more...)
}

// explain gives the error of a command its kind, by what it complained of.
func (p Programs) explain(ctx context.Context, name string, err error, complaint []byte) error {
	if len(complaint) > mostStderr {
		complaint = complaint[len(complaint)-mostStderr:]
	}
	f := &Failure{Name: name, Code: -1, Stderr: p.tidy(string(complaint)), cause: err}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		f.Code = exit.ExitCode()
	}
	if ctx.Err() != nil {
		return errs.New(errs.Unavailable, "%s did not answer in time: %w", p.System, fmt.Errorf("%w: %w", f, ctx.Err()))
	}
	if f.Code < 0 {
		return errs.New(errs.Unavailable, "it was ended from outside: %w", f)
	}
	said := strings.ToLower(f.Stderr)
	for _, row := range p.Complaints {
		if row.Fits != nil && row.Fits(said) || row.Fits == nil && strings.Contains(said, row.Text) {
			return errs.New(row.Kind, "%s: %w", row.Words, f).With(row.Remedy)
		}
	}
	return f
}

// Complaint joins what a command prints to what it means.
type Complaint struct {
	Text   string                 // in lower case
	Fits   func(said string) bool // instead of Text
	Kind   errs.Kind
	Words  string
	Remedy string
}

// AskAdmin is the remedy for what a user can do nothing about.
const AskAdmin = "tell your administrator: `slipway doctor` says more"

// tidy makes what a command complained of one line.
func (p Programs) tidy(s string) string {
	var kept []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && (p.Noise == "" || !strings.HasPrefix(line, p.Noise)) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "; ")
}
