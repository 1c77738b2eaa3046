package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"slipway/internal/errs"
	"slipway/internal/gpu"
)

// ensure has a daemon that answers. One that does not, or whose server has met a fatal fault, is made anew when nobody
// else is on it.
func (d *Daemons) ensure(ctx context.Context, g daemon, r record, holder string) error {
	s, err := d.look(ctx, g, r)
	if err != nil {
		return err
	}
	others := r.others(holder)
	switch {
	case s.Condition == Working:
		d.cfg.Logger.DebugContext(ctx, "MPS daemon is there", "gpu", g.uuid)
		return nil
	case s.Condition != Absent && len(others) > 0:
		return badPlace(g, "share it by MPS", s.Why)
	case s.Condition == Absent && len(others) > 0:
		d.cfg.Logger.WarnContext(
			ctx, "MPS daemon has ended by itself; those who were on it have lost the GPU", "gpu", g.uuid, "holders",
			others,
		)
	}
	if err := d.stop(ctx, g, r.V3); err != nil {
		return err
	}
	return d.start(ctx, g, r)
}

// start starts the daemon, which goes to the background by itself, and waits until it answers.
func (d *Daemons) start(ctx context.Context, g daemon, r record) error {
	if err := g.clear(); err != nil {
		return err
	}
	if err := d.layOut(g, r); err != nil {
		return fmt.Errorf("make directories for the MPS daemon of %s: %w", gpu.ShortUUID(g.uuid), err)
	}
	argv, err := d.argv(ctx, g, r)
	if err != nil {
		return err
	}
	said := filepath.Join(g.log(), "start.log")
	if err := d.launch(ctx, g, argv, said); err != nil {
		return err
	}
	d.step("launched")
	var last State
	if !d.until(ctx, func() bool { last, err = d.look(ctx, g, r); return err == nil && last.Condition == Working }) {
		return badPlace(
			g, "start its MPS daemon",
			strings.TrimSpace(tail(said)+" "+tail(filepath.Join(g.log(), "control.log"))+" "+last.Why),
		)
	}
	d.cfg.Logger.InfoContext(ctx, "MPS daemon started", "gpu", g.uuid, "protocol_3", r.V3, "multi_user", r.Multi)
	return nil
}

// argv is the command line that starts a daemon.
func (d *Daemons) argv(ctx context.Context, g daemon, r record) ([]string, error) {
	a, err := d.able(ctx)
	if err != nil {
		return nil, err
	}
	argv := []string{d.cfg.Control, "-d"}
	if r.V3 {
		argv = append(argv, "-p", "3")
	}
	if r.Multi {
		argv = append(argv, a.flag)
	}
	if r.V3 { // its clients need nothing of its /dev/shm
		return argv, nil
	}
	if len(d.cfg.Enclose) == 0 {
		return nil, errs.New(errs.Internal, "no program is configured that gives an MPS daemon its own /dev/shm")
	}
	return append(append(append([]string{}, d.cfg.Enclose...), g.shm, encloseMark), argv...), nil
}

// launch runs what puts itself into the background. What it prints goes to a file, for the daemon keeps that open.
func (d *Daemons) launch(ctx context.Context, g daemon, argv []string, said string) error {
	out, err := os.Create(said)
	if err != nil {
		return err
	}
	defer out.Close()
	limited, cancel := context.WithTimeout(ctx, d.cfg.Deadline)
	defer cancel()
	cmd := exec.CommandContext(limited, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = out, out, g.env(), "/"
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return d.missing(err)
	case err != nil:
		return badPlace(g, "start its MPS daemon", strings.TrimSpace(err.Error()+" "+tail(said)))
	}
	return nil
}

// layOut makes the directories of a daemon. The host's users can pass through, for a batch job may be a client as its
// user; only the pipes are for them.
func (d *Daemons) layOut(g daemon, r record) error {
	uid := -1
	if !r.Multi && d.uid == 0 { // the server runs as the user whose clients it serves
		for _, p := range r.Holders {
			uid = p.UID
		}
	}
	for _, dir := range []struct {
		path string
		mode fs.FileMode
		uid  int
	}{
		{d.cfg.Dir, 0o711, -1}, {g.dir, 0o711, -1}, {g.pipe(), 0o755, uid}, {g.log(), 0o700, uid},
		{d.cfg.Shm, 0o711, -1}, {g.shm, 0o777 | fs.ModeSticky, -1},
	} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return err
		}
		if err := os.Chmod(dir.path, dir.mode); err != nil { // whatever the umask made of it
			return err
		}
		if dir.uid >= 0 {
			if err := os.Chown(dir.path, dir.uid, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear removes what a daemon leaves: a pipe without a daemon has clients wait for it.
func (g daemon) clear() error { return errors.Join(os.RemoveAll(g.pipe()), os.RemoveAll(g.shm)) }

// stop ends a daemon and its servers: by the proper command, and by force when that does not do it.
func (d *Daemons) stop(ctx context.Context, g daemon, v3 bool) error {
	control, servers := d.processes(g)
	if control == 0 && len(servers) == 0 {
		return g.clear()
	}
	var err error
	switch {
	case control == 0: // servers without their daemon serve nobody new
	case v3:
		_, err = d.run(ctx, g, "", "-q")
	default:
		_, err = d.say(ctx, g, "quit")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if (err != nil || control == 0 || !d.gone(ctx, g)) && !d.kill(ctx, g) {
		return badPlace(g, "end its MPS daemon", "it does not end, not by force either")
	}
	return g.clear()
}

// end ends a daemon that nobody holds, and gives the GPU back to everybody. The record goes last: until then, it is
// tried again.
func (d *Daemons) end(ctx context.Context, g daemon, v3 bool) error {
	if err := d.stop(ctx, g, v3); err != nil {
		return err
	}
	d.step("stopped")
	if d.cfg.Exclusive != nil {
		if _, err := os.Stat(g.record()); err == nil { // without a record nothing was ever set
			if err := d.cfg.Exclusive(ctx, g.uuid, false); err != nil {
				return errs.New(errs.Unavailable, "open %s to everybody after MPS: %w", gpu.ShortUUID(g.uuid), err)
			}
		}
	}
	d.step("opened")
	if err := os.Remove(g.record()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
