package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
)

// Exit codes of what did not come to run, as shells and container programs have them.
const (
	cannotRun = 125
	ended     = 128 + int(unix.SIGTERM)
	killed    = 128 + int(unix.SIGKILL)
)

// Config is what a worker needs.
type Config struct {
	Dir     string   // the sandbox
	Program string   // the agent's static program, which has the KeepCommand too
	Env     []string // the worker's own environment: what it says of GPUs is passed on, and PATH finds Apptainer
	Logger  *slog.Logger
}

// ExitError says that the run ended with a code other than zero. The worker's process ends with the same.
type ExitError struct{ Code int }

// Error names the code.
func (e *ExitError) Error() string { return fmt.Sprintf("the run ended with code %d", e.Code) }

// ExitCode returns the code.
func (e *ExitError) ExitCode() int { return e.Code }

// Run sees one run through, from its plan to its End. It returns when nothing of it is left running; that ctx ends asks
// the run to end. The calling process becomes the one that orphans of its children fall to, and must have no children
// of its own.
func Run(ctx context.Context, cfg Config) error {
	box, err := openSandbox(cfg.Dir)
	if err != nil {
		return err
	}
	w := &worker{cfg: cfg, log: cfg.Logger, box: box, began: time.Now(), release: func() {}}
	defer func() { w.release() }()
	// Whoever kills this process leaves that word behind, for it cannot say another.
	unseen := w.end(
		killed, "what kept it on its worker node was killed, and could not see how it ended",
		"start it again; if it used much memory, ask for more",
	)
	if err := box.begin(unseen); err != nil {
		return err
	}
	e, left := w.work(ctx)
	if err := w.box.finish(e); err != nil {
		return err
	}
	if w.begun && !left.status {
		w.speakFor(left, e)
	}
	if e.ExitCode != 0 {
		w.log.Warn("the run has ended", "code", e.ExitCode, "reason", e.Reason, "remedy", e.Remedy)
		return &ExitError{Code: e.ExitCode}
	}
	return nil
}

// worker is one run.
type worker struct {
	cfg   Config
	log   *slog.Logger
	box   sandbox
	began time.Time
	plan  Plan
	begun bool // the container was started

	inputs  map[string]bool // names of the input files, which do not come back
	release func()          // lets go of what it has on the node beside the sandbox
	daemon  string          // directory of the one by which jobs share a GPU; empty: there is none
}

// end is how the run ended, as of now.
func (w *worker) end(code int, reason, remedy string) End {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return End{ExitCode: code, Reason: reason, Remedy: remedy, Host: host, Started: w.began, Ended: time.Now()}
}

// work does all that is between the plan and the End.
func (w *worker) work(ctx context.Context) (End, remains) {
	c, release, err := w.prepare(ctx)
	if err != nil {
		return w.couldNot(ctx, err), remains{}
	}
	defer release()
	before := readMemory(cgroupRoot, "/proc/self/cgroup")
	how, err := w.run(ctx, c)
	if err != nil {
		return w.couldNot(ctx, err), remains{}
	}
	w.begun = true
	left := w.gather()
	return w.account(how, left, readMemory(cgroupRoot, "/proc/self/cgroup").exceeded(before)), left
}

// speakFor writes the last word of an agent that could not: so what its app has left can be asked for as ever.
func (w *worker) speakFor(left remains, e End) {
	err := w.box.writeJSON(StatusFile, control.Status{
		Launch: w.plan.Launch, State: control.Exited, ExitCode: e.ExitCode, Reason: e.Reason, LogSize: left.log,
		Files: left.list, Started: e.Started, Ended: e.Ended,
	})
	if err != nil {
		w.log.Warn("no status can be written in the agent's place", "error", err)
	}
}

// command is what is to be run.
type command struct {
	argv, env []string
}

// prepare gets all together that the run needs. release lets go of the image.
func (w *worker) prepare(ctx context.Context) (c command, release func(), err error) {
	if w.plan, err = w.box.plan(); err != nil {
		return command{}, nil, err
	}
	program, err := findApptainer(w.plan.Apptainer, w.cfg.Env)
	if err != nil {
		return command{}, nil, err
	}
	if w.daemon, err = w.shared(); err != nil {
		return command{}, nil, err
	}
	w.release = w.box.takeScratch(w.plan.Scratch, w.log)
	if err := w.box.furnish(w.cfg.Program, w.plan); err != nil {
		return command{}, nil, noRoom(err)
	}
	if w.inputs, err = w.box.takeInputs(); err != nil {
		return command{}, nil, noRoom(err)
	}
	image, release, err := w.image(ctx)
	if err != nil {
		return command{}, nil, noRoom(err)
	}
	return command{argv: w.argv(program, image), env: w.environ()}, release, nil
}

// couldNot is the end of a run that has not begun.
func (w *worker) couldNot(ctx context.Context, err error) End {
	if ctx.Err() != nil {
		return w.end(ended, "it was ended before it had started", "")
	}
	w.log.Error("the run cannot be started", "error", err)
	e := w.end(cannotRun, err.Error(), "")
	if told, ok := errors.AsType[*errs.Error](err); ok {
		e.Reason, e.Remedy = errs.Brief(err), told.Remedy
	}
	return e
}

// noRoom says of an error that came of a full disk that it did.
func noRoom(err error) error {
	if errs.Is(err, errs.NoSpace) || !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return errs.New(errs.NoSpace, fullDisk+": %w", err).With(moreDisk)
}
