package htcondor

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
	"strings"
	"syscall"
	"time"

	"slipway/internal/errs"
)

// command is one of HTCondor's, to be run.
type command struct {
	name   string // such as condor_q
	args   []string
	tokens string // the directory with the token to show; empty: the service's own identity
	input  string
	// holds is open in the command for as long as it runs, which is ended when this process is killed; what it has
	// started in its turn may go on. nil: it is nothing to wait for, and goes on by itself.
	holds *os.File
}

// runner runs a command and gives what it printed. It is a field so that tests can do without HTCondor.
type runner func(ctx context.Context, c command) ([]byte, error)

// failure is a command that ran and did not end well.
type failure struct {
	Name   string
	Code   int // -1: it was killed
	Stderr string
	cause  error
}

func (f *failure) Error() string {
	if f.Stderr == "" {
		return fmt.Sprintf("%s: %v", f.Name, f.cause)
	}
	return fmt.Sprintf("%s: %s", f.Name, f.Stderr)
}

func (f *failure) Unwrap() error { return f.cause }

// asFailure finds the command that went wrong.
func asFailure(err error) (*failure, bool) { return errors.AsType[*failure](err) }

// complained reports whether a command complained of something, in lower case.
func complained(err error, of string) bool {
	f, ok := asFailure(err)
	return ok && strings.Contains(strings.ToLower(f.Stderr), of)
}

// program runs the commands of a directory.
type program struct{ dir string }

// commandPatience is how long any command may take; commandDelay how long it may still hold its output after it was
// killed.
const (
	commandPatience = time.Minute
	commandDelay    = 2 * time.Second
	mostStderr      = 16 << 10
	mostOutput      = 512 << 20
)

func (p program) run(ctx context.Context, c command) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	name, err := p.find(c.name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, name, c.args...)
	cmd.Dir, cmd.Env, cmd.Stdin = "/", environ(os.Environ(), c.tokens), strings.NewReader(c.input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal to the service's group is not for it
	if c.holds != nil {
		runtime.LockOSThread() // it would be killed when the thread ends that began it
		defer runtime.UnlockOSThread()
		cmd.ExtraFiles, cmd.SysProcAttr.Pdeathsig = []*os.File{c.holds}, syscall.SIGKILL
	}
	cmd.WaitDelay = commandDelay
	out, complaint := bounded{most: mostOutput}, bounded{most: mostOutput}
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if out.over {
		return nil, errs.New(errs.Unavailable, "%s prints more than %d bytes", c.name, mostOutput).With(askAdmin)
	}
	if err != nil {
		return out.Bytes(), explain(ctx, c.name, err, complaint.Bytes())
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

func (p program) find(name string) (string, error) {
	path, err := exec.LookPath(filepath.Join(p.dir, name))
	if err != nil {
		return "", errs.New(errs.Missing, "HTCondor's command %s is not on this host", name).
			With("install HTCondor here as an access point of the pool, or set htcondor.bin to the directory of its commands")
	}
	return path, nil
}

// environ is a command's environment: where HTCondor's configuration is, and nothing of the service's own.
func environ(of []string, tokens string) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/nonexistent"}
	for _, v := range of {
		if strings.HasPrefix(v, "CONDOR_CONFIG=") || strings.HasPrefix(v, "_CONDOR_") {
			env = append(env, v)
		}
	}
	if tokens != "" {
		env = append(env, "_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS=IDTOKENS", "_CONDOR_SEC_TOKEN_DIRECTORY="+tokens)
	}
	return env
}

// explain gives the error of a command its kind, by what it complained of.
func explain(ctx context.Context, name string, err error, complaint []byte) error {
	if len(complaint) > mostStderr {
		complaint = complaint[len(complaint)-mostStderr:]
	}
	f := &failure{Name: name, Code: -1, Stderr: tidy(string(complaint)), cause: err}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		f.Code = exit.ExitCode()
	}
	if ctx.Err() != nil {
		return errs.New(errs.Unavailable, "HTCondor did not answer in time: %w", fmt.Errorf("%w: %w", f, ctx.Err()))
	}
	if f.Code < 0 {
		return errs.New(errs.Unavailable, "it was ended from outside: %w", f)
	}
	if _, reason, found := strings.Cut(strings.ToLower(f.Stderr), uncommitted); found && !strings.Contains(reason, ";") {
		return errs.New(errs.Unavailable, "HTCondor's queue has not taken it: %w", f).With(askAdmin)
	}
	for _, row := range complaints() {
		if strings.Contains(strings.ToLower(f.Stderr), row.text) {
			return errs.New(row.kind, "%s: %w", row.words, f).With(row.remedy)
		}
	}
	return f
}

// complaint joins what a command prints to what it means.
type complaint struct {
	text   string // in lower case
	kind   errs.Kind
	words  string
	remedy string
}

// tooManyAtOnce is what is complained of when a submission alone has more jobs than one may.
const tooManyAtOnce = "max_jobs_per_submission"

// unknownFace is what is complained of when HTCondor does not know who asks.
const unknownFace = "authenticate"

// uncommitted is what is complained of when the schedd does not take a submission in the end. The reason that a rule of
// the site gives follows; without one it is the schedd's own trouble.
const uncommitted = "failed to commit job submission"

const askAdmin = "tell your administrator: `slipway doctor` says more"

func complaints() []complaint {
	return []complaint{
		{"exceed max_jobs_per_owner", errs.NoCapacity, "you have as many jobs in HTCondor's queue as one user may", "wait until some have ended, or remove some"},
		{"exceed max_jobs_submitted", errs.NoCapacity, "HTCondor's queue is full", "wait until some jobs have ended"},
		{tooManyAtOnce, errs.NoCapacity, "these are more jobs than may be submitted at once", askAdmin},
		{uncommitted, errs.Forbidden, "the site does not take this job", "ask for what it allows, or tell your administrator"},
		{"owner is disabled", errs.Forbidden, "the site has barred you from its queue", "tell your administrator"},
		{"failed to connect", errs.Unavailable, "HTCondor's queue does not answer", askAdmin},
		{"can't find address", errs.Unavailable, "HTCondor's queue does not answer", askAdmin},
		{"unable to locate", errs.Unavailable, "HTCondor's queue does not answer", askAdmin},
		{"couldn't contact", errs.Unavailable, "HTCondor does not answer", askAdmin},
		{"failed to fetch ads", errs.Unavailable, "HTCondor's queue does not answer", askAdmin},
		{"communication error", errs.Unavailable, "HTCondor does not answer", askAdmin},
		{unknownFace, errs.Unavailable, "HTCondor does not let the service in", askAdmin},
	}
}

// tidy makes what a command complained of one line.
func tidy(s string) string {
	var kept []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Submitting job") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "; ")
}
