package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"slipway/internal/agent/control"
	"slipway/internal/errs"
	"slipway/spawner"
)

// Start starts the shim of a job and waits until Apptainer runs. A job that runs is adopted; one that has ended is not
// run again under the same launch.
func (b *Backend) Start(ctx context.Context, l spawner.Launch) error {
	d, err := b.dir(l.ID)
	if err != nil {
		return err
	}
	if err := b.start(ctx, d, l); err != nil {
		return fmt.Errorf("start %s: %w", l.ID, err)
	}
	return nil
}

func (b *Backend) start(ctx context.Context, d dir, l spawner.Launch) error {
	p, err := b.plan(d, l)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	users := b.shareImage(ctx, &p) // before the lock, of which the program that this may start is not to have a copy
	if users != nil {
		defer users.Close()
	}
	lock, free, err := d.lock()
	if err != nil || !free {
		return err
	}
	defer lock.Close()
	seen, err := b.settle(ctx, d, l.ID)
	if err != nil || seen.Existence == spawner.Exited && b.ran(d, l) {
		return err
	}
	if err := b.survey(ctx, l); err != nil {
		return err
	}
	if b.cfg.Weight > 0 {
		if err := b.groups.Weigh(b.cfg.CgroupParent, b.cfg.Weight); err != nil {
			b.cfg.Logger.Warn("jobs do not weigh less than sessions on the processors", "err", err)
		}
	}
	l.Report("Starting Apptainer", -1)
	if err = errors.Join(d.prepare(p), ctx.Err()); err == nil {
		err = b.launch(ctx, d, l.ID, lock, users)
	}
	if err == nil || p.Mounted == "" || !strings.Contains(err.Error(), notServed) {
		return err
	}
	b.cfg.Logger.Warn("a job mounts its image by itself", "id", l.ID, "err", err)
	return b.startAlone(ctx, d, l.ID, p)
}

// startAlone starts a job once more, on a mount of its own.
func (b *Backend) startAlone(ctx context.Context, d dir, id spawner.ID, p plan) error {
	b.spurn(dir(p.Mounted))
	p.Mounted = ""
	lock, free, err := d.lock()
	if err != nil || !free {
		return err
	}
	defer lock.Close()
	if err := d.prepare(p); err != nil {
		return err
	}
	return b.launch(ctx, d, id, lock, nil)
}

// survey tells the owner what is amiss with the mounts, or forbids a start that would wait for one that does not
// answer.
func (b *Backend) survey(ctx context.Context, l spawner.Launch) error {
	if b.cfg.Outlook == nil {
		return nil
	}
	notes, err := b.cfg.Outlook(ctx)
	for _, note := range notes {
		l.Report(note, -1)
	}
	return err
}

// ran reports whether this very launch of a job has run: a job runs once.
func (b *Backend) ran(d dir, l spawner.Launch) bool {
	old, err := d.plan()
	return err == nil && l.Kind == spawner.Job && old.Launch == l.Launch
}

// plan decides what the shim is to run.
func (b *Backend) plan(d dir, l spawner.Launch) (plan, error) {
	program, err := b.program()
	if err != nil {
		return plan{}, err
	}
	network, err := b.networkPrograms()
	if err != nil {
		return plan{}, err
	}
	p := plan{
		Network: b.cfg.Network, programs: network, Reach: b.cfg.Reach, Disk: b.diskOf(l),
		ID: string(l.ID), Launch: l.Launch, Apptainer: program, Account: l.Account, Image: l.SIF, AgentDir: l.AgentDir,
		Agent:   path.Join(control.BinDir, b.cfg.Agent),
		LinkDir: filepath.Join(l.Dir, "link"), RunDir: filepath.Join(l.Dir, "run"), Scratch: d.path(scratchDir),
		Env: l.Spec.Env, GPU: l.GPU, Resources: l.Spec.Resources, TimeLimit: l.Spec.TimeLimit, Grace: b.cfg.Grace,
		Cgroups: b.groups.Parent,
		Mounts:  b.cfg.Mounts,
	}
	if l.Storage != "" {
		p.Mounts = append(slices.Clip(p.Mounts), Mount{Source: l.Storage, Target: "/storage"})
	}
	for _, a := range l.Areas {
		p.Mounts = append(slices.Clip(p.Mounts), Mount{Source: a.Source, Target: a.Target, Write: a.Write, Plain: true})
	}
	if err := p.check(); err != nil {
		return plan{}, err
	}
	return p, p.needs()
}

// program finds Apptainer.
func (b *Backend) program() (string, error) {
	program, err := exec.LookPath(b.cfg.Apptainer)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return "", errs.New(
			errs.Missing, "Apptainer is not installed on this host (%q is no program)", b.cfg.Apptainer,
		).With("install it with /usr/share/slipway/deploy/apptainer/install, or set local.apptainer to its path")
	}
	return program, nil
}

// prepare makes the directory ready for the shim. The plan comes last: without it a shim runs nothing.
func (d dir) prepare(p plan) error {
	if err := d.forget(); err != nil {
		return err
	}
	if err := owned(p.Scratch, p.Account); err != nil {
		return err
	}
	run, err := os.OpenRoot(p.RunDir)
	if err != nil {
		return err
	}
	defer run.Close()
	points := []string{control.BinDir, control.LinkDir, control.CredentialsDir}
	if p.hasDriver() {
		points = append(points, control.GPUDir)
	}
	for _, point := range points {
		name, err := filepath.Rel(control.RunDir, point)
		if err != nil {
			return err
		}
		if err := run.MkdirAll(name, 0o755); err != nil {
			return fmt.Errorf("make a mount point for %s: %w", point, err)
		}
	}
	if p.Measured, err = p.limitDisk(); err != nil {
		return err
	}
	return d.put(launchFile, p, (*os.File).Sync) // the mark of the start brings its name to the disk
}

func owned(name string, a spawner.Account) error {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return err
	}
	return os.Lchown(name, a.UID, a.GID)
}

// launch starts the shim, which inherits the lock and that of the shared mount of the job's image, if there is one, and
// waits for its word.
func (b *Backend) launch(ctx context.Context, d dir, id spawner.ID, lock, users *os.File) error {
	r, err := b.detach("local-shim", d, lock, users)
	if err = errors.Join(err, lock.Close()); err == nil {
		err = word(ctx, r)
	}
	if r != nil {
		_ = r.Close()
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, b.abandon(ctx, d, id))
}

// detach starts a program of this package, which inherits some files, and returns what it says. It is nobody's child:
// `setsid --fork` leaves it behind, so it needs no reaping and no signal to the service's group reaches it.
func (b *Backend) detach(program string, d dir, lock, users *os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("setsid", "--fork", b.cfg.Self, program, string(d))
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.ExtraFiles = []*os.File{lock, w}
	if users != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, users)
	}
	return r, errors.Join(cmd.Run(), w.Close())
}

// wordOK is what the shim says when the job runs. Anything else is why it does not.
const wordOK = "ok"

// word waits for the shim's.
func word(ctx context.Context, r *os.File) error {
	switch said, err := hear(ctx, r); {
	case err != nil:
		return fmt.Errorf("wait for the job's shim: %w", err)
	case said == wordOK:
		return nil
	case said == "":
		return errors.New("the job's shim ended without a word")
	default:
		return errors.New(said)
	}
}

// hear reads all that a detached program says.
func hear(ctx context.Context, r *os.File) (string, error) {
	defer context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })()
	data, err := io.ReadAll(io.LimitReader(r, 64<<10))
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return strings.TrimSpace(string(data)), err
}

// abandon ends a start that went wrong, at whatever point, and leaves nothing that looks like a job that ran. A shim
// that has not come far enough to be killed finds no plan.
func (b *Backend) abandon(ctx context.Context, d dir, id spawner.ID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := os.Remove(d.path(launchFile)); err != nil {
		return err
	}
	for {
		if err := d.signal(kill); err != nil {
			return err
		}
		free, err := d.awaitFree(ctx, 100*time.Millisecond)
		if err != nil {
			return err
		}
		if free {
			break
		}
	}
	if _, err := b.settle(ctx, d, id); err != nil {
		return err
	}
	return d.forget()
}
