package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// refusal is an answer of the control program that says no.
type refusal struct {
	command string
	text    string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("MPS refuses %q: %s", r.command, r.text)
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*refusal](err)
	return ok
}

// maxAnswer is as much as is read of an answer.
const maxAnswer = 1 << 20

// bounded keeps the beginning of what is written to it. The buffer is a field, not embedded: its ReadFrom would take
// everything.
type bounded struct{ kept bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxAnswer - b.kept.Len(); room > 0 {
		b.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// say returns a daemon of protocol 2 a command, through the control program's standard input.
func (d *Daemons) say(ctx context.Context, g daemon, words ...any) (string, error) {
	return d.run(ctx, g, strings.TrimSuffix(fmt.Sprintln(words...), "\n")+"\n")
}

// run runs the control program against a daemon and gives what it printed. What was printed comes with a refusal too.
func (d *Daemons) run(ctx context.Context, g daemon, stdin string, args ...string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, d.cfg.Deadline)
	defer cancel()
	cmd := exec.CommandContext(limited, d.cfg.Control, args...)
	var out bounded
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
	cmd.Env, cmd.Dir, cmd.WaitDelay = g.env(), "/", time.Second
	err := cmd.Run()
	command := strings.TrimSpace(strings.Join(args, " ") + " " + stdin)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "", errs.New(
			errs.Unavailable, "the MPS daemon of %s does not answer %q within %s", gpu.ShortUUID(g.uuid), command,
			d.cfg.Deadline,
		)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "", d.missing(err)
	}
	text := out.kept.String()
	if no := refused(text); err != nil || no != "" {
		if no == "" {
			no = firstLine(text)
		}
		if no == "" {
			no = err.Error()
		}
		return text, &refusal{command: command, text: no}
	}
	return text, nil
}

// missing is the error of a host without the control program.
func (d *Daemons) missing(err error) error {
	return errs.New(errs.Missing, "cannot run NVIDIA's MPS control program %q: %w", d.cfg.Control, err).
		With("install the part of NVIDIA's driver that has nvidia-cuda-mps-control (package nvidia-compute-utils or " +
			"xorg-x11-drv-nvidia-cuda, of the driver's version), or set another mode for these GPUs")
}

// env is the environment of the control program: little, for the daemon hands it on to its servers.
func (g daemon) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "CUDA_VISIBLE_DEVICES=" + g.uuid,
		"CUDA_MPS_PIPE_DIRECTORY=" + g.pipe(), "CUDA_MPS_LOG_DIRECTORY=" + g.log(),
	}
}
