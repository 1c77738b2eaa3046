package mps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strconv"

	"slipway/internal/errs"
	"slipway/internal/gpu"
	"slipway/internal/units"
)

// Share returns a holder, whose processes run as user uid, a share of a GPU: percent of its processors, and memory for
// each process. It starts the GPU's daemon when there is none. It may be repeated. uid is -1 when it is not known,
// which multi-user MPS allows.
//
// An error that is gpu.ErrBadPlace says that the GPU or its daemon is at fault. One of kind Conflict or NoCapacity says
// that this share does not go with those that others have on this GPU.
func (d *Daemons) Share(ctx context.Context, uuid, holder string, uid, percent int, memory int64) (Share, error) {
	g, done, err := d.take(ctx, uuid)
	if err != nil {
		return Share{}, err
	}
	defer done()
	a, err := d.able(ctx)
	if err != nil {
		return Share{}, err
	}
	r, _, err := g.load()
	if err != nil {
		return Share{}, err
	}
	want, others := part{UID: uid, Percent: percent, Memory: memory}, r.others(holder)
	if len(others) == 0 && (r.V3 != a.V3 || r.Multi != a.MultiUser || r.Holders[holder] != want) {
		if err := d.end(ctx, g, r.V3); err != nil { // nobody is on a daemon with other settings
			return Share{}, err
		}
		r = record{V3: a.V3, Multi: a.MultiUser, Holders: map[string]part{}}
	}
	if err := d.admit(g, r, a, holder, want); err != nil {
		return Share{}, err
	}
	_, had := r.Holders[holder]
	r.Holders[holder] = want
	if err := g.save(r); err != nil {
		return Share{}, err
	}
	d.step("saved")
	s, err := d.realise(ctx, g, r, holder)
	if err != nil && !had {
		err = errors.Join(err, d.leave(context.WithoutCancel(ctx), g, r, holder))
	}
	return s, err
}

// admit says why a holder cannot have a share beside those of others.
func (d *Daemons) admit(g daemon, r record, a Ability, holder string, want part) error {
	switch {
	case want.Percent < 1 || want.Percent > 100:
		return errs.Bad("percent", want.Percent, "1 to 100")
	case want.Memory < 1<<20:
		return errs.Bad("memory", want.Memory, "1M or more")
	case len(filepath.Join(g.pipe(), serverName, spaceName(holder), "control")) > maxSocketPath:
		return errs.Bad(
			"the directory of MPS", d.cfg.Dir,
			"a shorter path: the sockets below it would have names that the kernel does not take",
		)
	case !r.Multi && d.uid != 0 && want.UID != d.uid:
		return errs.New(errs.Missing, "MPS that user %d runs cannot serve user %d", d.uid, want.UID).
			With("run the service as root")
	case !r.Multi && want.UID < 0:
		return errs.New(
			errs.Conflict, "this host's MPS serves one user at a time, and it is not known as which user %s runs",
			holder,
		).With("a driver whose nvidia-cuda-mps-control -h knows --multiuser-server serves several")
	}
	others := r.others(holder)
	if len(others) >= a.Clients {
		return errs.New(
			errs.NoCapacity, "%s has %d workloads, and MPS takes %d processes at once", gpu.ShortUUID(g.uuid),
			len(others), a.Clients,
		)
	}
	if len(others) == 0 {
		return nil
	}
	first := r.Holders[others[0]]
	if !r.Multi && first.UID != want.UID {
		return errs.New(
			errs.Conflict, "%s is in use by another user, and this host's MPS serves one user at a time on a GPU",
			gpu.ShortUUID(g.uuid),
		).With("wait for the other user's sessions to end, or take another GPU; " +
			"a driver whose nvidia-cuda-mps-control -h knows --multiuser-server serves several users")
	}
	if !r.V3 && (first.Percent != want.Percent || first.Memory>>20 != want.Memory>>20) {
		return errs.New(errs.Conflict, "%s is shared out in parts of mps:%d%%/%s, and this host's MPS has equal parts only",
			gpu.ShortUUID(g.uuid), first.Percent, units.FormatMemory(first.Memory)).
			With("ask for that, or for another GPU; unequal parts need driver 615 or later")
	}
	return nil
}

// realise makes the GPU, its daemon and its limits what the record says, and gives what the holder's container needs.
func (d *Daemons) realise(ctx context.Context, g daemon, r record, holder string) (Share, error) {
	if d.cfg.Exclusive != nil {
		if err := d.cfg.Exclusive(ctx, g.uuid, true); err != nil {
			return Share{}, errs.New(
				errs.Unavailable, "keep %s for its MPS daemon alone: %w", gpu.ShortUUID(g.uuid), err,
			)
		}
	}
	d.step("exclusive")
	if err := d.ensure(ctx, g, r, holder); err != nil {
		return Share{}, err
	}
	d.step("started")
	set := d.setEqual
	if r.V3 {
		set = d.setSpace
	}
	if err := set(ctx, g, r, holder); err != nil {
		return Share{}, err
	}
	d.step("limited")
	return g.share(r, holder), nil
}

// share is what a holder's container needs. Paths are the same inside as outside. The pipes come read-only: to connect
// to a socket needs no more, and nobody can put another socket in its place.
func (g daemon) share(r record, holder string) Share {
	s := Share{PipeDir: g.pipe()}
	if r.V3 { // the directory of a namespace is its key: nobody else sees it
		s.PipeDir = filepath.Join(g.pipe(), serverName, spaceName(holder))
	}
	s.Env = map[string]string{"CUDA_MPS_PIPE_DIRECTORY": s.PipeDir}
	s.Mounts = []gpu.Mount{{Source: s.PipeDir, Target: s.PipeDir}}
	if !r.V3 {
		s.Mounts = append(s.Mounts, gpu.Mount{Source: g.shm, Target: "/dev/shm", Write: true})
	}
	return s
}

// serverName is the only server of a daemon of protocol 3.
const serverName = "slipway"

// maxSocketPath is the longest path of a socket.
const maxSocketPath = 107

// spaceName returns the name of a holder's namespace, in the letters that MPS takes.
func spaceName(holder string) string {
	sum := sha256.Sum256([]byte(holder))
	return "w" + hex.EncodeToString(sum[:8])
}

// setEqual sets the limits of all clients of a daemon of protocol 2, and reads them back. Limits for the next server do
// not change one that runs, so that is told too.
func (d *Daemons) setEqual(ctx context.Context, g daemon, r record, holder string) error {
	p := r.Holders[holder]
	text, err := d.say(ctx, g, "get_server_list")
	if err != nil {
		return err
	}
	commands := [][]any{
		{"set_default_device_pinned_mem_limit", 0, limit(p.Memory)}, // the daemon sees one GPU only: its number is 0
		{"set_default_active_thread_percentage", p.Percent},
	}
	for _, pid := range parsePIDs(text) {
		commands = append(commands,
			[]any{"set_device_pinned_mem_limit", pid, 0, limit(p.Memory)},
			[]any{"set_active_thread_percentage", pid, p.Percent})
	}
	for _, words := range commands {
		if _, err := d.say(ctx, g, words...); err != nil {
			return badPlace(g, "set the limits of its MPS daemon", err.Error())
		}
	}
	memory, err := d.say(ctx, g, "get_default_device_pinned_mem_limit", 0)
	if err != nil || !sameMemory(memory, p.Memory) {
		return badPlace(
			g, "check the memory limit of its MPS daemon", "want "+limit(p.Memory)+", found "+firstLine(memory),
		)
	}
	percent, err := d.say(ctx, g, "get_default_active_thread_percentage")
	if err != nil || !samePercent(percent, p.Percent) {
		return badPlace(
			g, "check the processor limit of its MPS daemon",
			"want "+strconv.Itoa(p.Percent)+", found "+firstLine(percent),
		)
	}
	return nil
}

// badPlace is the error of a GPU whose daemon does not do as it should.
func badPlace(g daemon, attempt, why string) error {
	return errs.New(errs.Unavailable, "%w: %s: %s: %s", gpu.ErrBadPlace, gpu.ShortUUID(g.uuid), attempt, why)
}
