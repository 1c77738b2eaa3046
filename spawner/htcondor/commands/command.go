// Package commands runs HTCondor's command line programs.
//
// Promises: arguments are a list, and no shell reads them; a command has its own time limit, and what it prints has a
// bound; it sees nothing of the service's environment but where HTCondor's configuration is; an error has the kind that
// tells whether trying again may help, and says in plain words what HTCondor complained of. The package must not know
// what the commands are for.
package commands

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

// Command is one of HTCondor's, to be run.
type Command struct {
	Name   string // such as condor_q
	Args   []string
	Tokens string // the directory with the token to show; empty: the service's own identity
	Input  string
	// Holds is open in the command for as long as it runs, which is ended when this process is killed; what it has
	// started in its turn may go on. nil: it is nothing to wait for, and goes on by itself.
	Holds *os.File
}

// Runner runs a command and returns what it printed. Tests have one that needs no HTCondor.
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

// program runs the commands of a directory.
type program struct{ dir string }

// In returns a runner of the commands in a directory; empty: of those on PATH.
func In(dir string) Runner { return program{dir}.run }

// commandPatience is how long any command may take; commandDelay how long it may still hold its output after it was
// killed.
const (
	commandPatience = time.Minute
	commandDelay    = 2 * time.Second
	mostStderr      = 16 << 10
	mostOutput      = 512 << 20
)

func (p program) run(ctx context.Context, c Command) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	name, err := p.find(c.Name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, name, c.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin = "/", environ(os.Environ(), c.Tokens), strings.NewReader(c.Input)
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
		return out.Bytes(), explain(ctx, c.Name, err, complaint.Bytes())
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
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/nonexistent",
	}
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
	f := &Failure{Name: name, Code: -1, Stderr: tidy(string(complaint)), cause: err}
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
		return errs.New(errs.Unavailable, "HTCondor's queue has not taken it: %w", f).With(AskAdmin)
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

// TooManyAtOnce is what is complained of when a submission alone has more jobs than one may.
const TooManyAtOnce = "max_jobs_per_submission"

// UnknownFace is what is complained of when HTCondor does not know who asks.
const UnknownFace = "authenticate"

// uncommitted is what is complained of when the schedd does not take a submission in the end. The reason that a rule of
// the site gives follows; without one it is the schedd's own trouble.
const uncommitted = "failed to commit job submission"

const AskAdmin = "tell your administrator: `slipway doctor` says more"

func complaints() []complaint {
	return []complaint{
		{
			"exceed max_jobs_per_owner", errs.NoCapacity, "you have as many jobs in HTCondor's queue as one user may",
			"wait until some have ended, or remove some",
		},
		{"exceed max_jobs_submitted", errs.NoCapacity, "HTCondor's queue is full", "wait until some jobs have ended"},
		{TooManyAtOnce, errs.NoCapacity, "these are more jobs than may be submitted at once", AskAdmin},
		{
			uncommitted, errs.Forbidden, "the site does not take this job",
			"ask for what it allows, or tell your administrator",
		},
		{"owner is disabled", errs.Forbidden, "the site has barred you from its queue", "tell your administrator"},
		{"failed to connect", errs.Unavailable, "HTCondor's queue does not answer", AskAdmin},
		{"can't find address", errs.Unavailable, "HTCondor's queue does not answer", AskAdmin},
		{"unable to locate", errs.Unavailable, "HTCondor's queue does not answer", AskAdmin},
		{"couldn't contact", errs.Unavailable, "HTCondor does not answer", AskAdmin},
		{"failed to fetch ads", errs.Unavailable, "HTCondor's queue does not answer", AskAdmin},
		{"communication error", errs.Unavailable, "HTCondor does not answer", AskAdmin},
		{UnknownFace, errs.Unavailable, "HTCondor does not let the service in", AskAdmin},
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
